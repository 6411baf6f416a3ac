/* The bytes of kova.usage.v1 and kova.ledger.v1 (proto/kova_usage.proto, proto/kova_ledger.proto). */
#pragma once

#include "book.h"
#include "core/buf.h"

struct usage_message {
	struct book_key key;
	struct usage_record record;
	void *owner; /* usage_message_release() */
};

/* KOVA_EPROTO: no such message, or a name, root or agent that is none. Its slices live until it is released. */
KOVA_MUST_CHECK kova_status usage_message_parse(struct slice value, struct usage_message *ret_m);
void usage_message_release(struct usage_message *m);

struct ledger_message {
	struct book_key key;
	struct book_kept kept;
	struct usage_record *counters; /* of `kept`; owned */
	void *owner;                   /* ledger_message_release() */
};

/* KOVA_EPROTO, KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status ledger_message_parse(struct slice value, struct ledger_message *ret_m);
void ledger_message_release(struct ledger_message *m);

/* Appends the record of a ledger: POLICY/ROOT/REGION (of others POLICY/REGION), and its value. */
void ledger_key_write(const struct book_key *key, struct buf *out);
KOVA_MUST_CHECK kova_status ledger_value_write(const struct book_key *key,
					       const struct usage_ledger *l,
					       const struct intern *processes, struct buf *out);
