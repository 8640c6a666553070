"""Descriptions: the fields of each noun, each a function. Lists, JSON, metrics and maps are derived from them."""
