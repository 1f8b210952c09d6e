"""Adds up. Prices come from `prices`; `rates` was used here before."""

from importlib import import_module


def total(items):
    prices = import_module("shop.prices").PRICES
    return sum(prices[name] * count for name, count in items)
