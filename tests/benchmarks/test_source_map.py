"""Counting modules, lines, imports between rooms and classes above each other, on sources that are made up."""

from __future__ import annotations

from benchmarks.source_map import source_map, table

SOURCES = {
    "sudare/__init__.py": "",
    "sudare/errors.py": '"""Errors."""\n\n\nclass Error(Exception):\n    # Nothing.\n    pass\n',
    "sudare/linear/base.py": "from sudare.errors import Error\n\n\nclass Model:\n    pass\n",
    "sudare/linear/models.py": "from sudare.linear.base import Model\n\n\nclass Ridge(Model):\n    pass\n\n\nclass Small(Ridge):\n    pass\n",
    "sudare/papers/p000.py": "from sudare.linear.models import Ridge\n",
}


def test_a_map_of_made_up_sources():
    found = source_map(SOURCES)
    assert found.modules == {".": 2, "linear": 2, "papers": 1}
    assert found.lines == {".": 6, "linear": 14, "papers": 1}
    assert found.product_lines == 20
    assert found.product_code_lines == 10
    # Imports of modules that stand beside the rooms do not count.
    assert found.crossings == 1
    assert found.deepest == ("Small", "Ridge", "Model")
    assert "| `linear` | 2 | 14 | 2 | 14 |" in table(found, found)
    assert "| classes above the deepest one | 2 |  | 2 |  |" in table(found, found)
