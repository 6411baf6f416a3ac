#include "grants_topic.h"

#include <sys/random.h>

#include "compacted.h"
#include "io/clock.h"
#include "io/log.h"

enum { EPOCH_BITS = 53 };

static bool take_over(struct slice key, struct slice value, void *data)
{
	struct granter *grants = data;
	struct share_grant_message m;
	kova_status status = share_grant_parse(value, &m);

	(void)key;
	if (status == KOVA_OK) {
		status = granter_restore(grants, &m.quota, &m.grant, clock_read().boot_us);
		share_grant_release(&m);
	}
	if (status == KOVA_OK || status == KOVA_ENOTFOUND)
		return true;
	log_event(LOG_ERROR, "grants", "the grants before can't be known",
		  LOG_TEXT_FIELD("why", status == KOVA_ENOMEM
						? "out of memory"
						: "a record is not of " SHARE_GRANTS_TOPIC));
	return false;
}

/* Of no other ownership, and exact in a double. */
static uint64_t epoch_new(void)
{
	uint64_t epoch = 0;

	while (epoch == 0)
		if (getrandom(&epoch, sizeof epoch, 0) != (ssize_t)sizeof epoch)
			epoch = 0;
		else
			epoch >>= 64 - EPOCH_BITS;
	return epoch;
}

bool grants_topic_take_over(const struct coord_conf *conf, int32_t id,
			    const struct global_terms *terms, struct keys *keys,
			    struct granter *ret_granter, const atomic_bool *stop)
{
	struct compacted topic = {0};
	bool ok;

	if (granter_init(ret_granter, terms, keys, epoch_new(), clock_read().boot_us) != KOVA_OK) {
		log_event(LOG_ERROR, "grants", "the grants before can't be known",
			  LOG_TEXT_FIELD("why", "out of memory"));
		return false;
	}
	if (terms->n == 0)
		return true;
	ok = compacted_open(&topic, conf, SHARE_GRANTS_TOPIC, id) &&
	     compacted_read(&topic, take_over, ret_granter, stop);
	compacted_close(&topic);
	return ok;
}
