#include "grants_topic.h"

#include "compacted.h"
#include "io/clock.h"
#include "io/log.h"

static bool take_over(struct slice key, struct slice value, void *data)
{
	struct grants *grants = data;
	struct share_grant_message m;
	kova_status status = share_grant_parse(value, &m);

	(void)key;
	if (status == KOVA_OK) {
		status = grants_restore(grants, &m.quota, &m.grant, clock_read().boot_us);
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

bool grants_topic_read(const struct coord_conf *conf, int32_t id, struct grants *grants,
		       const atomic_bool *stop)
{
	struct compacted topic = {0};
	bool ok = compacted_open(&topic, conf, SHARE_GRANTS_TOPIC, id) &&
		  compacted_read(&topic, take_over, grants, stop);

	compacted_close(&topic);
	return ok;
}
