#include "edge_restart.h"

#include <string.h>

#include "edge_conf.h"
#include "io/log.h"

static void warn_if_changed(const char *option, const char *was, const char *is)
{
	if ((was == NULL) != (is == NULL) || (was != NULL && strcmp(was, is) != 0))
		log_event(LOG_WARN, "reload_needs_restart",
			  "this option takes effect with the next start",
			  LOG_TEXT_FIELD("option", option));
}

void edge_restart_warn(const struct edge_conf *was, const struct edge_conf *is)
{
	warn_if_changed("node", was->node, is->node);
	warn_if_changed("region", was->region, is->region);
	warn_if_changed("listen.resp", was->listen_resp, is->listen_resp);
	warn_if_changed("listen.http", was->listen_http, is->listen_http);
	warn_if_changed("listen.grpc", was->listen_grpc, is->listen_grpc);
	warn_if_changed("listen.unix", was->listen_unix, is->listen_unix);
	warn_if_changed("gossip.listen", was->gossip.listen, is->gossip.listen);
	warn_if_changed("gossip.advertise", was->gossip.advertise, is->gossip.advertise);
	warn_if_changed("state_dir", was->state_dir, is->state_dir);
	warn_if_changed("redis.url", was->redis.url, is->redis.url);
	warn_if_changed("redis.master", was->redis.master, is->redis.master);
	if (was->redis.max_skew_ms != is->redis.max_skew_ms)
		warn_if_changed("clock.max_skew", NULL, "");
	warn_if_changed("kafka.bootstrap", was->kafka.bootstrap, is->kafka.bootstrap);
	if (was->kafka.report_ms != is->kafka.report_ms)
		warn_if_changed("kafka.report", NULL, "");
	if (was->threads != is->threads)
		warn_if_changed("threads", NULL, "");
	warn_if_changed("tracing.endpoint", was->tracing.endpoint, is->tracing.endpoint);
	if (was->tracing.sample != is->tracing.sample)
		warn_if_changed("tracing.sample", NULL, "");
	if (was->tls.fronts != is->tls.fronts)
		warn_if_changed("tls.fronts", NULL, "");
}
