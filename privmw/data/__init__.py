"""Attributes and domains, tables of records, supports and workloads."""
