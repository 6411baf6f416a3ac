"""A real Kafka for the system tests: brokers by scripts/kafka, and what is in their topics, read by librdkafka.

    class Usage(kafka.Case):          # one broker for all tests of the class: self.broker
        def test_x(self):
            topic = self.broker.read("kova.usage.v1")      # what is there now, a list of Message
"""
import ctypes
import os
import signal
import subprocess
import tempfile
import time
import uuid

import harness

SCRIPT = os.path.join(harness.SOURCE, "scripts", "kafka")

# ---- librdkafka: the calls that are needed here, as rdkafka.h declares them ------------------------------------------

_CONSUMER, _PRODUCER = 1, 0
_CONF_OK = 0
_BEGINNING = -2
_PARTITION_EOF = -191
_V_END, _V_TOPIC, _V_VALUE, _V_KEY, _V_HEADER = 0, 1, 4, 5, 9


class _Message(ctypes.Structure):
    _fields_ = [("err", ctypes.c_int), ("rkt", ctypes.c_void_p), ("partition", ctypes.c_int32),
                ("payload", ctypes.c_void_p), ("len", ctypes.c_size_t), ("key", ctypes.c_void_p),
                ("key_len", ctypes.c_size_t), ("offset", ctypes.c_int64), ("_private", ctypes.c_void_p)]


class _Topic(ctypes.Structure):
    _fields_ = [("topic", ctypes.c_char_p), ("partition_cnt", ctypes.c_int), ("partitions", ctypes.c_void_p),
                ("err", ctypes.c_int)]


class _Metadata(ctypes.Structure):
    _fields_ = [("broker_cnt", ctypes.c_int), ("brokers", ctypes.c_void_p), ("topic_cnt", ctypes.c_int),
                ("topics", ctypes.POINTER(_Topic)), ("orig_broker_id", ctypes.c_int32),
                ("orig_broker_name", ctypes.c_char_p)]


def _library():
    lib = ctypes.CDLL("librdkafka.so.1")
    pointer, text, number, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    declared = {
        "conf_new": (pointer, []),
        "conf_set": (number, [pointer, text, text, ctypes.c_char_p, size]),
        "new": (pointer, [number, pointer, ctypes.c_char_p, size]),
        "destroy": (None, [pointer]),
        "poll_set_consumer": (number, [pointer]),
        "consumer_poll": (ctypes.POINTER(_Message), [pointer, number]),
        "consumer_close": (number, [pointer]),
        "message_destroy": (None, [ctypes.POINTER(_Message)]),
        "message_headers": (number, [ctypes.POINTER(_Message), ctypes.POINTER(pointer)]),
        "message_timestamp": (ctypes.c_int64, [ctypes.POINTER(_Message), ctypes.POINTER(number)]),
        "header_get_all": (number, [pointer, size, ctypes.POINTER(text), ctypes.POINTER(pointer), ctypes.POINTER(size)]),
        "topic_name": (text, [pointer]),
        "topic_new": (pointer, [pointer, text, pointer]),
        "topic_destroy": (None, [pointer]),
        "metadata": (number, [pointer, number, pointer, ctypes.POINTER(ctypes.POINTER(_Metadata)), number]),
        "metadata_destroy": (None, [ctypes.POINTER(_Metadata)]),
        "topic_partition_list_new": (pointer, [number]),
        "topic_partition_list_add": (pointer, [pointer, text, ctypes.c_int32]),
        "topic_partition_list_set_offset": (number, [pointer, text, ctypes.c_int32, ctypes.c_int64]),
        "topic_partition_list_destroy": (None, [pointer]),
        "assign": (number, [pointer, pointer]),
        "err2str": (text, [number]),
        "flush": (number, [pointer, number]),
        "queue_new": (pointer, [pointer]),
        "queue_destroy": (None, [pointer]),
        "queue_poll": (pointer, [pointer, number]),
        "event_destroy": (None, [pointer]),
        "event_error": (number, [pointer]),
        "event_error_string": (text, [pointer]),
        "event_CreateTopics_result": (pointer, [pointer]),
        "CreateTopics_result_topics": (ctypes.POINTER(pointer), [pointer, ctypes.POINTER(size)]),
        "topic_result_error": (number, [pointer]),
        "topic_result_error_string": (text, [pointer]),
        "NewTopic_new": (pointer, [text, number, number, ctypes.c_char_p, size]),
        "NewTopic_set_config": (number, [pointer, text, text]),
        "NewTopic_destroy": (None, [pointer]),
        "CreateTopics": (None, [pointer, ctypes.POINTER(pointer), size, pointer, pointer]),
        "init_transactions": (pointer, [pointer, number]),
        "begin_transaction": (pointer, [pointer]),
        "commit_transaction": (pointer, [pointer, number]),
        "abort_transaction": (pointer, [pointer, number]),
        "error_string": (text, [pointer]),
        "error_destroy": (None, [pointer]),
    }
    for name, (result, arguments) in declared.items():
        function = getattr(lib, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    lib.rd_kafka_producev.restype = number
    return lib


_rd = _library()


def _text(code):
    return _rd.rd_kafka_err2str(code).decode()


def _client(kind, settings):
    conf, error = _rd.rd_kafka_conf_new(), ctypes.create_string_buffer(512)
    for name, value in settings.items():
        if _rd.rd_kafka_conf_set(conf, name.encode(), str(value).encode(), error, len(error)) != _CONF_OK:
            raise ValueError(error.value.decode())
    client = _rd.rd_kafka_new(kind, conf, error, len(error))
    if not client:
        raise RuntimeError(error.value.decode())
    return client


class Message:
    """A record: topic, partition, offset, key and value as bytes, headers as a dict of bytes, timestamp in ms."""

    def __init__(self, message):
        m = message.contents
        self.topic = _rd.rd_kafka_topic_name(m.rkt).decode()
        self.partition, self.offset = m.partition, m.offset
        self.key = ctypes.string_at(m.key, m.key_len) if m.key else None
        self.value = ctypes.string_at(m.payload, m.len) if m.payload else None
        self.timestamp = _rd.rd_kafka_message_timestamp(message, None)
        self.headers = self._headers(message)

    @staticmethod
    def _headers(message):
        headers, found = ctypes.c_void_p(), {}
        if _rd.rd_kafka_message_headers(message, ctypes.byref(headers)) != 0:
            return found
        name, value, size = ctypes.c_char_p(), ctypes.c_void_p(), ctypes.c_size_t()
        while _rd.rd_kafka_header_get_all(headers, len(found), ctypes.byref(name), ctypes.byref(value),
                                          ctypes.byref(size)) == 0:
            found[name.value.decode()] = ctypes.string_at(value, size.value)
        return found

    def __repr__(self):
        return f"Message({self.topic}[{self.partition}]@{self.offset}, {self.key}, {self.value})"


class Reader:
    """Reads all partitions of `topic` from their beginning, each record once."""

    def __init__(self, bootstrap, topic, settings=None):
        self.topic = topic
        self.client = _client(_CONSUMER, {"bootstrap.servers": bootstrap, "group.id": f"test-{uuid.uuid4()}",
                                          "enable.auto.commit": "false", "enable.partition.eof": "true",
                                          "log_level": "0", **(settings or {})})
        _rd.rd_kafka_poll_set_consumer(self.client)
        self.partitions = 0

    def close(self):
        if self.client:
            _rd.rd_kafka_consumer_close(self.client)
            _rd.rd_kafka_destroy(self.client)
        self.client = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _count_partitions(self):
        topic = _rd.rd_kafka_topic_new(self.client, self.topic.encode(), None)
        found = ctypes.POINTER(_Metadata)()
        try:
            error = _rd.rd_kafka_metadata(self.client, 0, topic, ctypes.byref(found), 10000)
            if error != 0:
                raise OSError(f"no metadata of {self.topic}: {_text(error)}")
            about = found.contents.topics[0]
            count = 0 if about.err else about.partition_cnt
            _rd.rd_kafka_metadata_destroy(found)
            return count
        finally:
            _rd.rd_kafka_topic_destroy(topic)

    def _begin(self):
        """False while there is no such topic."""
        self.partitions = self._count_partitions()
        assigned = _rd.rd_kafka_topic_partition_list_new(self.partitions)
        for partition in range(self.partitions):
            _rd.rd_kafka_topic_partition_list_add(assigned, self.topic.encode(), partition)
            _rd.rd_kafka_topic_partition_list_set_offset(assigned, self.topic.encode(), partition, _BEGINNING)
        error = _rd.rd_kafka_assign(self.client, assigned)
        _rd.rd_kafka_topic_partition_list_destroy(assigned)
        if error != 0:
            raise OSError(_text(error))
        return self.partitions > 0

    def poll(self, timeout=0.1):
        """The next record; None: none came in time."""
        if self.partitions == 0 and not self._begin():
            time.sleep(timeout)
            return None
        message = _rd.rd_kafka_consumer_poll(self.client, int(timeout * 1000))
        if not message:
            return None
        try:
            return Message(message) if message.contents.err == 0 else None
        finally:
            _rd.rd_kafka_message_destroy(message)

    def until_end(self, timeout=None):
        """All records from where it is to the present end of every partition."""
        deadline = time.monotonic() + (timeout or harness.PATIENCE)
        ended, records = set(), []
        if self.partitions == 0 and not self._begin():
            return records
        while len(ended) < self.partitions:
            if time.monotonic() > deadline:
                raise AssertionError(f"the end of {self.topic} was not reached in time")
            message = _rd.rd_kafka_consumer_poll(self.client, 100)
            if not message:
                continue
            if message.contents.err == 0:
                ended.discard(message.contents.partition)
                records.append(Message(message))
            elif message.contents.err == _PARTITION_EOF:
                ended.add(message.contents.partition)
            _rd.rd_kafka_message_destroy(message)
        return records


# ---- brokers ---------------------------------------------------------------------------------------------------------

class Broker:
    """A cluster of 1 or 3 brokers at `host`; with `tls` also reachable by TLS and SASL (scripts/kafka says how), one with a `proxy`
    (proxy.KafkaProxy) also by that."""

    def __init__(self, brokers=1, tls=False, host="127.0.0.1", proxy=None):
        self.directory = tempfile.mkdtemp(prefix="kova-kafka-")
        self.count = brokers
        self.port = self._free_ports(3 * brokers)
        self.environment = {**os.environ, "KAFKA_HOST": host, "KAFKA_UNTIL": str(os.getpid()),
                            **({"KAFKA_TLS": "1"} if tls else {}),
                            **({"KAFKA_PROXY": str(proxy.address[1])} if proxy else {})}
        self.bootstrap = self._script("start", self.directory, str(self.port), str(brokers)).strip()
        self.tls_bootstrap = f"localhost:{self.port + 2 * brokers}"
        if proxy:
            proxy.target = (host, self.port + 2)
        self.ca = os.path.join(self.directory, "tls", "ca.pem")

    @staticmethod
    def _free_ports(count):
        while True:
            first = harness.free_port()
            if all(harness.unused(first + i) for i in range(count)):
                return first

    def _script(self, *words):
        done = subprocess.run([SCRIPT, *words], env=self.environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"scripts/kafka {' '.join(words)}:\n{done.stderr}")
        return done.stdout

    def pid(self, broker=1):
        with open(os.path.join(self.directory, str(broker), "pid"), encoding="ascii") as file:
            return int(file.read())

    def send_signal(self, number, broker=1):
        os.kill(self.pid(broker), number)

    def kill(self, broker=1):
        pid = self.pid(broker)
        os.kill(pid, signal.SIGKILL)
        harness.wait_for(lambda: not harness.alive(pid), "a broker that is gone")

    def restart(self, broker=1):
        """One that was killed, with its data."""
        self._script("start-one", self.directory, str(broker))

    def stop(self):
        self._script("stop", self.directory)
        subprocess.run(["rm", "-rf", self.directory], check=True)

    def create_topic(self, name, partitions=3, **config):
        """Its settings' dots are written as underlines."""
        client = _client(_PRODUCER, {"bootstrap.servers": self.bootstrap, "log_level": "0"})
        queue = _rd.rd_kafka_queue_new(client)
        error = ctypes.create_string_buffer(512)
        topic = _rd.rd_kafka_NewTopic_new(name.encode(), partitions, self.count, error, len(error))
        try:
            for option, value in config.items():
                _rd.rd_kafka_NewTopic_set_config(topic, option.replace("_", ".").encode(), str(value).encode())
            _rd.rd_kafka_CreateTopics(client, (ctypes.c_void_p * 1)(topic), 1, None, queue)
            event = _rd.rd_kafka_queue_poll(queue, 20000)
            assert event and _rd.rd_kafka_event_error(event) == 0, _rd.rd_kafka_event_error_string(event)
            count = ctypes.c_size_t()
            results = _rd.rd_kafka_CreateTopics_result_topics(_rd.rd_kafka_event_CreateTopics_result(event),
                                                              ctypes.byref(count))
            code, said = (_rd.rd_kafka_topic_result_error(results[0]),
                          _rd.rd_kafka_topic_result_error_string(results[0]))
            _rd.rd_kafka_event_destroy(event)
            assert code == 0, said
        finally:
            _rd.rd_kafka_NewTopic_destroy(topic)
            _rd.rd_kafka_queue_destroy(queue)
            _rd.rd_kafka_destroy(client)

    def reader(self, topic, **settings):
        return Reader(self.bootstrap, topic, settings)

    def read(self, topic, settings=None):
        """What is in `topic` now."""
        with Reader(self.bootstrap, topic, settings) as reader:
            return reader.until_end()

    def produce(self, topic, records):
        """Appends (key, value, headers) each, all bytes, headers a dict; returns when the brokers have them."""
        client = _client(_PRODUCER, {"bootstrap.servers": self.bootstrap, "log_level": "0", "enable.idempotence": "true"})
        try:
            for record in records:
                _produce(client, topic, *record)
            assert _rd.rd_kafka_flush(client, 30000) == 0, "not delivered in time"
        finally:
            _rd.rd_kafka_destroy(client)

    def transactions(self, name):
        return Transactions(self.bootstrap, name)


def _produce(client, topic, key, value, headers):
    """`value` None: a tombstone."""
    arguments = [_V_TOPIC, ctypes.c_char_p(topic.encode()),
                 _V_KEY, ctypes.c_char_p(key), ctypes.c_size_t(len(key)),
                 _V_VALUE, ctypes.c_char_p(value), ctypes.c_size_t(len(value or b""))]
    for name, content in headers.items():
        arguments += [_V_HEADER, ctypes.c_char_p(name.encode()), ctypes.c_char_p(content),
                      ctypes.c_ssize_t(len(content))]
    error = _rd.rd_kafka_producev(ctypes.c_void_p(client), *arguments, _V_END)
    assert error == 0, _text(error)


class Transactions:
    """A producer whose records are committed, or aborted, together."""

    def __init__(self, bootstrap, name):
        self.client = _client(_PRODUCER, {"bootstrap.servers": bootstrap, "log_level": "0", "transactional.id": name})
        self._do("init_transactions", 30000)

    def _do(self, call, *arguments):
        error = getattr(_rd, f"rd_kafka_{call}")(self.client, *arguments)
        if error:
            said = _rd.rd_kafka_error_string(error).decode()
            _rd.rd_kafka_error_destroy(error)
            raise OSError(f"{call}: {said}")

    def begin(self):
        self._do("begin_transaction")

    def produce(self, topic, key, value, headers):
        _produce(self.client, topic, key, value, headers)

    def flush(self):
        """The brokers have what was produced, uncommitted."""
        assert _rd.rd_kafka_flush(self.client, 30000) == 0, "not delivered in time"

    def commit(self):
        self._do("commit_transaction", 30000)

    def abort(self):
        self._do("abort_transaction", 30000)

    def close(self):
        _rd.rd_kafka_destroy(self.client)


class Case(harness.Case):
    """Tests with one cluster for all of the class, of `brokers` brokers: self.broker."""

    brokers = 1
    tls = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.broker = Broker(cls.brokers, cls.tls)
        cls.addClassCleanup(cls.broker.stop)
