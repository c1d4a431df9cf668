import pytest

from mihash.tables.database import Database
from mihash.tables.sqlite import SQLiteTable
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
