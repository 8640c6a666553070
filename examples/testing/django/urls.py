"""Addresses of the shop."""

from django.urls import path
from shop import place

urlpatterns = [path("orders", place)]
