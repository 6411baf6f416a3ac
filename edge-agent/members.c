#include "members.h"

#include "edge_conf.h"

json_t *members_alone(const struct edge_conf *conf, const char *address)
{
	return json_pack("{s:[{s:s?,s:s?,s:s,s:s,s:s,s:i,s:i}]}", "members", "node", conf->node,
			 "region", conf->region, "role", "agent", "state", "alive", "address",
			 address, "incarnation", 0, "skew_ms", 0);
}
