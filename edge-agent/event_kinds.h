/* What each event says beside what all do: proto/events.schema.json. On the loop of the agent given; NULL: nobody hears of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct agent;
struct control_write;
struct control_written;

/*
 * outage_begun, outage_ended: `part` as the metric kova_outage has it, `shard` of it; with it goes how many policies act
 * in which way meanwhile.
 */
void event_outage(struct agent *a, const char *part, int shard, bool up);
/* `event` is breaker_opened or breaker_closed (a literal); never with the key. */
void event_breaker(struct agent *a, const char *event, const char *policy);
/* config_changed, for control_on_write() where there is a Kafka: `agent` is the owner. */
void event_config(const struct control_write *w, void *agent);
/* For control_on_written(): viewers hear that there is news, and of the last changes that event_config() has not told them. */
void event_config_seen(struct agent *owner, const struct control_written *list, size_t n);
