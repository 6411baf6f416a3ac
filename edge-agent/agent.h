/*
 * One loop of the agent, as the fronts on it see it: configuration, control plane, engine. Holds nothing that decides. The
 * loops share nothing but what says so; the owner, which runs in the main thread, also does what the agent does once:
 * administration, reloads, signals, the embedded store, accepting.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "core/hlc.h"
#include "edge_conf.h"
#include "io/mailbox.h"
#include "io/random_pool.h"
#include "ops.h"
#include "request.h"

struct auth;
struct change_log;
struct control;
struct publisher;
struct usage_feed;
struct gossip_service;
struct live;
struct live_viewer;
struct pool_service;
struct rlqs;
struct rls_check;
struct tls_server;
struct tracer;

struct agent {
	uv_loop_t *loop;
	unsigned index;          /* of the loop, from 0 on; 0 is the owner */
	unsigned loops;          /* how many there are; 0 stands for 1 */
	struct mailbox *mailbox; /* of the loop; NULL: there is only one */
	struct agent *next;      /* the loops in a ring; NULL: there is only one */
	struct agent *owner;     /* NULL: itself */
	struct edge_conf
		conf; /* of the file as it was at the start; texts are shared, and never change */
	struct auth *auth;             /* tokens and their scopes */
	struct tls_server *tls;        /* a reference; for connections to come; NULL: none */
	struct gossip_service *gossip; /* the owner's; NULL: none */
	struct change_log *changes;    /* the owner's */
	struct hlc hlc;                /* the owner's: stamps what it tells and publishes */
	struct control *control;       /* of other loops than the owner: a replica */
	struct engine *engine;
	struct pool_service *pools;
	struct rlqs *rlqs;
	struct rls_check *spare_checks; /* list: of calls that are over, for those to come */
	unsigned n_spare_checks;
	struct usage_feed *feed;     /* NULL: there is no Kafka */
	struct publisher *publisher; /* the owner's; NULL: there is no Kafka */
	struct tracer *tracer;       /* of all loops; NULL: nothing is traced */
	struct random_pool random;   /* for the ids of traces */
	struct live *live;           /* of all loops */
	struct live_viewer *viewers; /* of this loop */
	struct ops ops;
	unsigned tours; /* tours and other errands to loops that are on their way from here */
	bool draining;  /* SIGTERM was received: no new connections, readyz says so */
};

/* The loop whose control plane takes changes. */
static inline struct agent *agent_owner(struct agent *a)
{
	return a->owner != NULL ? a->owner : a;
}
