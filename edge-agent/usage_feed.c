#include "usage_feed.h"

#include "core/keyspace.h"

bool usage_feed_init(struct usage_feed *f)
{
	*f = (struct usage_feed){.active = tally_new(USAGE_FEED_ROOTS),
				 .handed = tally_new(USAGE_FEED_ROOTS)};
	return f->active != NULL && f->handed != NULL;
}

void usage_feed_release(struct usage_feed *f)
{
	tally_free(f->active);
	tally_free(f->handed);
	*f = (struct usage_feed){0};
}

void usage_feed_add(struct usage_feed *f, struct slice policy, struct slice key,
		    const struct tally_counts *counts)
{
	const struct tally_key root = {.policy = policy, .root = keyspace_root(key)};

	if (!tally_add(f->active, &root, counts, 0))
		f->lost += counts->admitted + counts->refused;
}

void usage_feed_swap(struct usage_feed *f)
{
	struct tally *active = f->active;

	f->active = f->handed;
	f->handed = active;
	f->handed_lost += f->lost;
	f->lost = 0;
}
