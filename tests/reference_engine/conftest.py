"""The table's own consistency is tested before anything that relies on it."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "test_table_consistency" not in item.nodeid)
