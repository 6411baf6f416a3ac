/* The bytes of what regions and coordinators tell each other about shares (proto/kova_share.proto). */
#pragma once

#include "core/buf.h"
#include "core/bytes.h"
#include "core/share_record.h"
#include "core/status.h"

#define SHARE_REPORT_SCHEMA "kova.share.v1" /* on kova.usage.v1 */
#define SHARE_GRANTS_TOPIC "kova.grants.v1"
#define SHARE_GRANT_SCHEMA SHARE_GRANTS_TOPIC

enum { SHARE_ROOT_MAX = 1024, SHARE_GRANT_BYTES_MAX = 2048 };

/* Whose share it is. Borrowed: of what was parsed, until it is released. */
struct share_quota {
	struct slice region, policy; /* names (core/name.h) */
	struct slice root;           /* 0..SHARE_ROOT_MAX bytes */
};

struct share_report_message {
	struct share_quota quota;
	struct share_report report;
	void *owner; /* share_report_release() */
};

struct share_grant_message {
	struct share_quota quota;
	struct share_grant grant;
	void *owner; /* share_grant_release() */
};

/*
 * KOVA_EPROTO: no such message, a name or root that is none, or numbers that no region or allocator says: a whole of 0, shares greater than
 * the whole, times that are none. KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status share_report_parse(struct slice value,
					       struct share_report_message *ret_m);
void share_report_release(struct share_report_message *m);
KOVA_MUST_CHECK kova_status share_grant_parse(struct slice value,
					      struct share_grant_message *ret_m);
void share_grant_release(struct share_grant_message *m);

/* Each appends the bytes; without memory `out` has failed. */
void share_report_write(const struct share_quota *q, const struct share_report *r, struct buf *out);
void share_grant_write(const struct share_quota *q, const struct share_grant *g, struct buf *out);
