/* The texts of a link's options, owned. */
#include <stdlib.h>
#include <string.h>

#include "io/redis_link.h"

static bool own(const char **text)
{
	if (*text == NULL)
		return true;
	*text = strdup(*text);
	return *text != NULL;
}

bool redis_link_options_own(struct redis_link_options *o)
{
	/* All four, so that each is either a copy or NULL. */
	bool whole = own(&o->path);

	whole = own(&o->host) && whole;
	whole = own(&o->user) && whole;
	whole = own(&o->password) && whole;
	if (!whole)
		redis_link_options_release(o);
	return whole;
}

void redis_link_options_release(struct redis_link_options *o)
{
	free((char *)o->path);
	free((char *)o->host);
	free((char *)o->user);
	free((char *)o->password);
	o->path = o->host = o->user = o->password = NULL;
}
