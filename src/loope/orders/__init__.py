"""Patch orders: in which sequence a grid of patches is numbered."""

from loope.orders.base import Order, create_order, list_orders, register_order
from loope.orders.locality import Locality

from loope.orders import scans, curves, gilbert  # isort: skip  # registered in this order

__all__ = ["Locality", "Order", "create_order", "curves", "gilbert", "list_orders", "register_order", "scans"]
