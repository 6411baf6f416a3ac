-- ClickHouse tables of Kova's topics for dashboards. For each topic: NAME_in reads the topic, NAME keeps it, NAME_mv carries
-- from the one to the other. Put your brokers in; with Kafka Connect in place of the Kafka engine see docs/consumers.md.
--
-- Records may be read twice (the engine commits after it has stored): the tables keep one row of each key, by FINAL or in time.
-- More fields may come in any topic: input_format_skip_unknown_fields lets them pass.
CREATE DATABASE IF NOT EXISTS kova;

-- What each region used of each policy, a row an interval and region. Written in transactions: only what is committed is read.
CREATE TABLE kova.rollup_in
(
    policy String, `from` DateTime64(3, 'UTC'), `to` DateTime64(3, 'UTC'), `limit` Nullable(Float64), per Nullable(String),
    regions Map(String, Tuple(admitted UInt64, refused UInt64, waited UInt64, admitted_total UInt64,
                              share Nullable(Float64), `grant` Nullable(Float64), floor Nullable(Float64)))
)
ENGINE = Kafka
SETTINGS kafka_broker_list = 'kafka:9092', kafka_topic_list = 'kova.rollup.v1', kafka_group_name = 'clickhouse-kova-rollup',
         kafka_format = 'JSONEachRow', kafka_num_consumers = 1, input_format_skip_unknown_fields = 1, date_time_input_format = 'best_effort';

CREATE TABLE kova.rollup
(
    policy LowCardinality(String), region LowCardinality(String), `from` DateTime64(3, 'UTC'), `to` DateTime64(3, 'UTC'),
    `limit` Nullable(Float64), per LowCardinality(Nullable(String)),
    admitted UInt64, refused UInt64, waited UInt64, admitted_total UInt64,
    share Nullable(Float64), `grant` Nullable(Float64), floor Nullable(Float64)
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(`to`)
ORDER BY (policy, region, `to`)
TTL toDateTime(`to`) + INTERVAL 1 YEAR;

CREATE MATERIALIZED VIEW kova.rollup_mv TO kova.rollup AS
SELECT policy, region, `from`, `to`, `limit`, per,
       used.admitted AS admitted, used.refused AS refused, used.waited AS waited, used.admitted_total AS admitted_total,
       used.share AS share, used.grant AS `grant`, used.floor AS floor
FROM kova.rollup_in
ARRAY JOIN mapKeys(regions) AS region, mapValues(regions) AS used;

-- What happened. Fields that an event has not are empty; before and after are JSON, empty where there is none.
CREATE TABLE kova.events_in
(
    event String, at DateTime64(3, 'UTC'), node String, region String, hlc UInt64,
    part String, policy String, pool String, endpoint String, target String, why String, peer String, skew_ms Int64,
    member String, kind String, name String, key String, prefix String, who String, before String, after String,
    kafka UInt64, ledger UInt64, active UInt32, floor UInt32, ms UInt64, retry_in_ms UInt64, tier UInt8
)
ENGINE = Kafka
SETTINGS kafka_broker_list = 'kafka:9092', kafka_topic_list = 'kova.events.v1', kafka_group_name = 'clickhouse-kova-events',
         kafka_format = 'JSONEachRow', kafka_num_consumers = 1, input_format_skip_unknown_fields = 1, date_time_input_format = 'best_effort';

CREATE TABLE kova.events
(
    event LowCardinality(String), at DateTime64(3, 'UTC'), node LowCardinality(String), region LowCardinality(String), hlc UInt64,
    part LowCardinality(String), policy LowCardinality(String), pool LowCardinality(String), endpoint String, target String,
    why LowCardinality(String), peer LowCardinality(String), skew_ms Int64, member LowCardinality(String), kind LowCardinality(String),
    name String, key String, prefix String, who String, before String, after String,
    kafka UInt64, ledger UInt64, active UInt32, floor UInt32, ms UInt64, retry_in_ms UInt64, tier UInt8
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(at)
ORDER BY (event, node, hlc)
TTL toDateTime(at) + INTERVAL 1 YEAR;

CREATE MATERIALIZED VIEW kova.events_mv TO kova.events AS SELECT * FROM kova.events_in;

-- The five numbers of each pool and region, a row a report. return_ok is NULL where no endpoint came back.
CREATE TABLE kova.pool_in
(
    pool String, region String, `from` DateTime64(3, 'UTC'), `to` DateTime64(3, 'UTC'), share Map(String, Float64),
    cooldowns UInt32, cooldown_ms UInt64, active_min UInt32, escalation Float64, return_ok Nullable(Float64)
)
ENGINE = Kafka
SETTINGS kafka_broker_list = 'kafka:9092', kafka_topic_list = 'kova.pool.v1', kafka_group_name = 'clickhouse-kova-pool',
         kafka_format = 'JSONEachRow', kafka_num_consumers = 1, input_format_skip_unknown_fields = 1, date_time_input_format = 'best_effort';

CREATE TABLE kova.pool
(
    pool LowCardinality(String), region LowCardinality(String), `from` DateTime64(3, 'UTC'), `to` DateTime64(3, 'UTC'),
    share Map(LowCardinality(String), Float64), cooldowns UInt32, cooldown_ms UInt64, active_min UInt32,
    escalation Float64, return_ok Nullable(Float64)
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(`to`)
ORDER BY (pool, region, `to`)
TTL toDateTime(`to`) + INTERVAL 1 YEAR;

CREATE MATERIALIZED VIEW kova.pool_mv TO kova.pool AS SELECT * FROM kova.pool_in;
