"""ClickHouse in this process: usage: clickhouse.py DIRECTORY < script, where the script is JSON, a list of statements.

Prints a list of what each has answered: lines of JSON as one text, or `error: …`. Run by the Python of build/clients/clickhouse.
"""

import json
import sys
import types
from unittest import mock

# It wants this for data frames alone, of which none is made here.
sys.modules["pyarrow"] = mock.MagicMock(spec=types.ModuleType("pyarrow"), RecordBatchReader=object, Table=object)

from chdb import session  # noqa: E402


def answer(here, statement):
    try:
        return str(here.query(statement, "JSONEachRow").data())
    except RuntimeError as error:
        return f"error: {error}"


def main():
    here = session.Session(sys.argv[1])
    json.dump([answer(here, statement) for statement in json.load(sys.stdin)], sys.stdout)
    here.close()


main()
