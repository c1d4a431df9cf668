import pytest

from mihash.store.sqlite.database import Database
from mihash.store.sqlite.sqlite_table import SQLiteTable
from stored import FIRST


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


@pytest.fixture
def table(folder):
    made = SQLiteTable.create(folder)
    made.rebuild(FIRST)
    yield made
    made.close()


@pytest.fixture
def database(folder):
    made = Database.create(folder, {"color": "red"})
    yield made
    made.close()
