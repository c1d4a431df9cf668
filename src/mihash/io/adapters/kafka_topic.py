"""A topic of Kafka as the source of an index, each message exactly once.

The offset of a partition is committed with the rows that were read up to it, in one transaction of the index, and
reading goes on from there. So a crash at any moment neither loses a message nor stores it twice. The consumer
groups of Kafka are not used.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import validation
from ...errors import InvalidInput, StoreError
from ...extras import load_extra
from ...index.online_index import OnlineIndex


class MessageRow(NamedTuple):
    """The contents of a message: a vector, an optional label, and optional metadata."""

    vector: Any
    label: Any = None
    metadata: Mapping[str, Any] | None = None


def decode_json(value: bytes) -> MessageRow:
    """Return the row of a message in JSON: ``{"vector": [...], "label": ..., "metadata": {...}}``.

    Examples
    --------
    >>> decode_json(b'{"vector": [1, 2], "metadata": {"year": 2024}}')
    MessageRow(vector=[1, 2], label=None, metadata={'year': 2024})
    """
    found = json.loads(value)
    if not isinstance(found, dict) or "vector" not in found or set(found) - set(MessageRow._fields):
        raise InvalidInput(f"A message must be an object with vector, label and metadata; got {value[:60]!r}.")
    return MessageRow(**found)


def decode_floats(value: bytes) -> MessageRow:
    """Return the row of a message of little-endian float32 numbers.

    Examples
    --------
    >>> decode_floats(np.array([1.0, 2.0], dtype="<f4").tobytes()).vector.tolist()
    [1.0, 2.0]
    """
    if not value or len(value) % 4:
        raise InvalidInput(f"A message of float32 numbers must have a multiple of 4 bytes; got {len(value)}.")
    return MessageRow(np.frombuffer(value, dtype="<f4"))


def topic_position(index: OnlineIndex, topic: str, partition: int) -> int:
    """Return the offset of the next message to read from a partition."""
    return index.position(_name(topic, partition)) or 0


def consume_topic(
    index: OnlineIndex,
    topic: str,
    config: Mapping[str, Any],
    *,
    decode: Callable[[bytes], MessageRow] = decode_json,
    at_once: int = 500,
    wait_s: float = 1.0,
    stop: Callable[[], bool] | None = None,
) -> int:
    """Add the messages of a topic to an index, from where it stopped, and return how many.

    The key of a message is the key of its item; a message without one gets ``"topic/partition/offset"``. A key
    that is stored already raises `DuplicateKey`, and nothing of its batch is stored.

    Parameters
    ----------
    index
        The index.
    topic
        The topic; all of its partitions are read.
    config
        The configuration of the consumer; ``bootstrap.servers`` is needed.
    decode
        Makes a row from the value of a message: `decode_json`, `decode_floats`, or a function of your own.
    at_once
        How many messages are taken at a time; those of one partition are one transaction.
    wait_s
        How long to wait for messages.
    stop
        Asked after each batch whether to return. Without it, the call returns when it has read what was there when
        it began.

    Examples
    --------
    >>> consume_topic(index, "photos", {"bootstrap.servers": "localhost:9092"})  # doctest: +SKIP
    10000
    """
    validation.integer("at_once", at_once, minimum=1)
    kafka = load_extra("kafka", "A topic of Kafka needs confluent-kafka", "confluent_kafka")
    settings = {"group.id": "mihash", **config, "enable.auto.commit": False, "enable.auto.offset.store": False}
    consumer = kafka.Consumer(settings)
    try:
        ends = _assign(kafka, consumer, index, topic)
        n = 0
        while not (stop() if stop else _reached(index, topic, ends)):
            messages = consumer.consume(at_once, wait_s)
            for partition in sorted({message.partition() for message in messages}):
                n += _add(
                    kafka, index, topic, [each for each in messages if each.partition() == partition], decode
                )
        return n
    finally:
        consumer.close()


def _assign(kafka: Any, consumer: Any, index: OnlineIndex, topic: str) -> dict[int, int]:
    """Let the consumer read each partition from where the index stopped; return where each ends now."""
    found = consumer.list_topics(topic, timeout=10.0).topics[topic]
    if found.error is not None or not found.partitions:
        raise InvalidInput(f"The brokers have no topic {topic!r}: {found.error}.")
    parts, ends = [], {}
    for partition in sorted(found.partitions):
        part = kafka.TopicPartition(topic, partition, topic_position(index, topic, partition))
        low, high = consumer.get_watermark_offsets(part, timeout=10.0)
        if part.offset < low and index.position(_name(topic, partition)) is not None:
            raise StoreError(
                f"Kafka has deleted messages of {topic}/{partition} that were not read: the index stopped at "
                f"{part.offset:,}, and the first message there is {low:,}."
            )
        part.offset = max(part.offset, low)
        parts.append(part)
        ends[partition] = high
    consumer.assign(parts)
    return ends


def _reached(index: OnlineIndex, topic: str, ends: Mapping[int, int]) -> bool:
    return all(end == 0 or topic_position(index, topic, partition) >= end for partition, end in ends.items())


def _add(
    kafka: Any,
    index: OnlineIndex,
    topic: str,
    messages: Sequence[Any],
    decode: Callable[[bytes], MessageRow],
) -> int:
    """Add the messages of one partition with the offset after them."""
    rows, keys, position = [], [], 0
    for message in messages:
        if message.error() is not None:
            if message.error().code() == kafka.KafkaError._PARTITION_EOF:
                continue
            raise StoreError(f"Kafka: {message.error()}.")
        where = f"{topic}/{message.partition()}/{message.offset()}"
        try:
            rows.append(decode(message.value() or b""))
        except ValueError as error:
            raise InvalidInput(f"The message {where} cannot be read: {error}") from error
        key = message.key()
        keys.append(where if key is None else key.decode())
        position = message.offset() + 1
    if not rows:
        return 0
    labels = [row.label for row in rows]
    index.add(
        np.asarray([row.vector for row in rows]),
        None if all(label is None for label in labels) else labels,
        keys,
        None if all(row.metadata is None for row in rows) else [dict(row.metadata or {}) for row in rows],
        source=(_name(topic, messages[0].partition()), position),
    )
    return len(rows)


def _name(topic: str, partition: int) -> str:
    return f"kafka:{topic}/{partition}"
