"""Descriptions: what is said of each noun, a field a function. Lists, JSON, metrics and maps are derived from it."""
