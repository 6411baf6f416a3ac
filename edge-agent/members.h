/* The members that an agent without gossip knows: itself. */
#pragma once

#include <jansson.h>

struct edge_conf;

/* As gossip_service_members(); `address` is where the node is reached. A new reference, NULL: out of memory. */
json_t *members_alone(const struct edge_conf *conf, const char *address);
