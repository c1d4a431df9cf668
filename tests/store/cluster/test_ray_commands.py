"""The command line and the service with an index on Ray; files that are encoded on the nodes that hold them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import mihash
from mihash import cli
from mihash.errors import InvalidInput, StoreError
from mihash.io.encode import Encoded, encode_folder
from mihash.mapping import LinearMapping
from mihash.service import Running
from over_http import Caller, rows

X, Y = rows(400)
MAPPING = LinearMapping(np.random.default_rng(0).standard_normal((8, 12)))


def run(*words):
    done = CliRunner().invoke(cli.app, [*map(str, words)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def write(path, first, last, keys=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"emb": X[first:last].tolist()} | ({} if keys is None else {"id": keys})
    pa.parquet.write_table(pa.table(about), path)


def test_an_index_on_ray_from_the_command_line_and_over_http(tmp_path, nodes, places):
    index, file = tmp_path / "index", tmp_path / "rows.parquet"
    write(file, 0, 400)
    named = [word for name, folder in places.items() for word in ("--node", f"{name}={folder}")]
    with pytest.raises(InvalidInput, match="give its number of shards with --shards"):
        run("create", index, *named)
    run("create", index, "--bits", 16, "--shards", 2, *named, "--ray", nodes.address)
    mihash.OnlineIndex.create(tmp_path / "plain").close()
    with pytest.raises(InvalidInput, match="is not an index on Ray"):
        run("stats", tmp_path / "plain", "--ray", "auto")

    def opening():
        return mihash.OnlineIndex.open(index, cluster=mihash.Cluster(address=nodes.address))

    with Running(opening) as service:
        call = Caller(service).ready()
        assert call.post("/v1/items", {"vectors": X.tolist()}).status == 201
        service.service.index.wait()
        body = call.post("/v1/search", {"key": 3, "k": 5}).body
        told = json.loads(run("search", index, "--key", 3, "-k", 5, "--json", "--ray", nodes.address))
        assert [told["keys"], told["distances"]] == [body["results"][0][name] for name in ("keys", "distances")]
        shards = call.get("/v1/stats").body["shards"]
        assert [each["node"] for each in shards] == ["store-a", "store-b"]
        assert sum(each["items"] for each in shards) == 400
        assert [each["lag"] for each in shards] == [0, 0]
        metrics = call.get("/metrics").body.decode()
        assert 'mihash_shard_up{shard="1"} 1' in metrics
        assert 'mihash_shard_restarts{shard="0"} 0' in metrics
        seen = json.loads(run("stats", index, "--json"))
        assert [each["version"] for each in seen["shards"]] == [seen["version"]] * 2
        assert "restarts" in run("stats", index)
        assert json.loads(run("get", index, 7, "--json"))["key"] == 7
    run("export", index, tmp_path / "codes.parquet", "--vectors")
    saved = mihash.export.read_parquet(tmp_path / "codes.parquet")
    assert sorted(saved.keys.tolist()) == list(range(400))
    assert saved.version == seen["version"]
    assert np.array_equal(saved.codes, saved.mapping.encode(X[saved.keys]))


def test_files_are_encoded_where_they_are_and_once(tmp_path, nodes):
    source, target = tmp_path / "in", tmp_path / "out"
    write(source / "a.parquet", 0, 100, [f"k{i}" for i in range(100)])
    write(source / "deep" / "b.parquet", 100, 250)
    write(source / "c.pq", 250, 400, list(range(1000, 1150)))
    options = {"ray": True, "address": nodes.address, "nodes": ["store-a", "store-b"]}
    assert encode_folder(source, target, MAPPING, **options) == Encoded(3, 0, 400)
    for name, first, last, keys in (
        ("a.parquet", 0, 100, [f"k{i}" for i in range(100)]),
        ("deep/b.parquet", 100, 250, list(range(150))),
        ("c.pq", 250, 400, list(range(1000, 1150))),
    ):
        found = mihash.export.read_parquet(target / name)
        assert found.keys.tolist() == keys
        assert np.array_equal(found.codes, MAPPING.encode(X[first:last]))
        assert found.mapping == MAPPING
    write(source / "a.parquet", 0, 90)
    (target / "c.pq").write_bytes(b"cut short")
    assert encode_folder(source, target, MAPPING, **options) == Encoded(2, 1, 240)
    assert encode_folder(source, target, MAPPING) == Encoded(0, 3, 0)
    other = LinearMapping(np.eye(8))
    assert encode_folder(source, target, other) == Encoded(3, 0, 390)
    (source / "bad.parquet").write_bytes(b"nothing of that kind")
    with pytest.raises(
        StoreError, match=r"1 of 4 files could not be encoded; the first: .*bad.parquet is damaged"
    ):
        encode_folder(source, target, other, **options)
    with pytest.raises(InvalidInput, match="no Parquet files"):
        encode_folder(tmp_path / "nowhere", target, other, **options)
