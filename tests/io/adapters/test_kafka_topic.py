"""A topic on the mock broker that librdkafka contains, which other clients reach over TCP."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import mihash
from mihash.errors import DuplicateKey, InvalidInput
from mihash.io.adapters.kafka_topic import consume_topic, decode_floats, topic_position

kafka = pytest.importorskip("confluent_kafka", reason="needs Kafka: pip install 'mihash[kafka]'")
X = np.random.default_rng(0).standard_normal((900, 8)).astype("f4")
CHILD = """
import sys, mihash
from mihash.io.adapters.kafka_topic import consume_topic
with mihash.open(sys.argv[1], n_bits=16) as index:
    print("open", flush=True)
    consume_topic(index, "rows", {"bootstrap.servers": sys.argv[2]}, at_once=5)
"""


@pytest.fixture(scope="module")
def broker():
    """Return a producer whose process is the broker, and the broker's address."""
    producer = kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = producer.list_topics(timeout=10).brokers.values()
    return producer, ",".join(f"{each.host}:{each.port}" for each in brokers)


def message(i):
    return json.dumps({"vector": X[i].tolist(), "metadata": {"row": i}})


def send(producer, topic, rows, keys=True):
    for i in rows:
        producer.produce(topic, message(i), key=f"key {i}" if keys else None, partition=i % 3)
    producer.flush(10)


def test_messages_become_items_once(broker, tmp_path):
    producer, address = broker
    send(producer, "once", range(40))
    with mihash.open(tmp_path / "index", n_bits=16) as index:
        assert consume_topic(index, "once", {"bootstrap.servers": address}) == 40
        assert consume_topic(index, "once", {"bootstrap.servers": address}) == 0
        assert np.array_equal(index.get("key 7").vector, X[7])
        assert index.get("key 7").metadata == {"row": 7}
    send(producer, "once", range(40, 50))
    with mihash.open(tmp_path / "index") as index:
        assert consume_topic(index, "once", {"bootstrap.servers": address}) == 10
        assert len(index) == 50
        assert sum(topic_position(index, "once", partition) for partition in range(3)) == 50


def test_messages_without_keys_are_named_by_their_place(broker, tmp_path):
    producer, address = broker
    producer.produce("floats", X[0].tobytes(), partition=1)
    producer.flush(10)
    with mihash.open(tmp_path / "index", n_bits=16) as index:
        consume_topic(index, "floats", {"bootstrap.servers": address}, decode=decode_floats)
        assert index.keys() == ["floats/1/0"]


def test_what_cannot_be_stored_is_named_and_nothing_of_its_batch_is_in(broker, tmp_path):
    producer, address = broker
    send(producer, "bad", [3, 6])
    producer.produce("bad", b'{"rows": 1}', partition=0)
    producer.produce("twice", message(0), key="a", partition=0)
    producer.produce("twice", message(1), key="a", partition=0)
    producer.flush(10)
    with mihash.open(tmp_path / "index", n_bits=16) as index:
        with pytest.raises(InvalidInput, match=r"The message bad/0/2 cannot be read: .* label and metadata"):
            consume_topic(index, "bad", {"bootstrap.servers": address})
        with pytest.raises(DuplicateKey):
            consume_topic(index, "twice", {"bootstrap.servers": address})
        assert len(index) == 0


def test_exactly_once_over_kills(broker, tmp_path):
    producer, address = broker
    send(producer, "rows", range(900))
    folder, kills = tmp_path / "index", 0
    for delay in (0.1, 0.3):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(folder), address], stdout=subprocess.PIPE, env=os.environ
        )
        child.stdout.readline()
        time.sleep(delay)  # where the kill falls does not matter to what is promised
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            kills += 1
        child.wait()
        child.stdout.close()
    with mihash.open(folder, n_bits=16) as index:
        consume_topic(index, "rows", {"bootstrap.servers": address})
        assert sorted(index.keys()) == sorted(f"key {i}" for i in range(900))
        assert np.array_equal(index.get("key 899").vector, X[899])
        index.verify()
    assert kills > 0
