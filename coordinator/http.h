/* A coordinator's HTTP: /healthz, /readyz, /metrics, /v1/members, and its dashboard with /v1/stream. */
#pragma once

#include <uv.h>

#include "core/buf.h"
#include "core/status.h"
#include "share.h"

struct http_front;

/* Listens at `conf->http`, with its tokens and its TLS. NULL: it can't; *ret_error says why. */
struct http_front *http_front_open(uv_loop_t *loop, const struct coord_conf *conf,
				   struct coord_share *share, struct buf *ret_error);
/* The tokens and certificates of `conf` hold from here on, all or nothing; whether there is TLS does not change. */
KOVA_MUST_CHECK kova_status http_front_reload(struct http_front *f, const struct coord_conf *conf,
					      struct buf *ret_errors);
/* Closes all connections; frees itself on the loop. NULL is nothing. */
void http_front_close(struct http_front *f);
