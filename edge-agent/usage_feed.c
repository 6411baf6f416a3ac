#include "usage_feed.h"

#include "control/control.h"
#include "core/keyspace.h"
#include "usage_children.h"

bool usage_feed_init(struct usage_feed *f)
{
	*f = (struct usage_feed){.active = tally_new(USAGE_FEED_ROOTS),
				 .handed = tally_new(USAGE_FEED_ROOTS),
				 .children = tally_new(USAGE_CHILDREN),
				 .handed_children = tally_new(USAGE_CHILDREN)};
	return f->active != NULL && f->handed != NULL && f->children != NULL &&
	       f->handed_children != NULL;
}

void usage_feed_release(struct usage_feed *f)
{
	tally_free(f->active);
	tally_free(f->handed);
	tally_free(f->children);
	tally_free(f->handed_children);
	*f = (struct usage_feed){0};
}

void usage_feed_add(struct usage_feed *f, struct slice policy, struct slice key,
		    const struct tally_counts *counts)
{
	const struct tally_key root = {.policy = policy, .root = keyspace_root(key)};

	if (!tally_add(f->active, &root, counts, 0))
		f->lost += counts->admitted + counts->refused;
	if (f->control != NULL)
		usage_children_add(f->children, control_catalogue(f->control), policy, key,
				   counts->admitted);
}

static void swap(struct tally **a, struct tally **b)
{
	struct tally *was = *a;

	*a = *b;
	*b = was;
}

void usage_feed_swap(struct usage_feed *f)
{
	swap(&f->active, &f->handed);
	swap(&f->children, &f->handed_children);
	f->handed_lost += f->lost;
	f->lost = 0;
}
