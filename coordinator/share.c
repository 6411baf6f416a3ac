#include "share.h"

#include "drift_watch.h"

struct coord_numbers coord_share_numbers(struct coord_share *s)
{
	pthread_mutex_lock(&s->lock);
	struct coord_numbers n = s->numbers;

	pthread_mutex_unlock(&s->lock);
	return n;
}

bool coord_share_write_health(struct coord_share *s, struct buf *out)
{
	const struct coord_numbers n = coord_share_numbers(s);
	bool stop = atomic_load(&s->stop), owns = n.joined && n.taking_over == 0;

	buf_printf(out, "{\"status\":\"%s\",\"degraded\":[%s%s",
		   stop   ? "draining"
		   : owns ? "ready"
			  : "degraded",
		   n.joined ? "" : "\"kafka\"",
		   n.taking_over == 0 ? ""
		   : n.joined         ? "\"take_over\""
				      : ",\"take_over\"");
	drift_watch_degraded(s->drift, owns, out);
	buf_printf(out, "],\"partitions\":%llu,\"taking_over\":%llu}",
		   (unsigned long long)n.partitions, (unsigned long long)n.taking_over);
	return owns && !stop;
}
