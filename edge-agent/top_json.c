#include "top_json.h"

#include "core/quote.h"

static void write_kind(const struct top_keys *t, enum top_kind kind, struct slice policy,
		       unsigned max, struct buf *out)
{
	struct top_key keys[TOP_LISTED_MAX];
	unsigned n = top_keys_list(t, kind, policy, keys, max);

	for (unsigned i = 0; i < n; i++) {
		buf_printf(out, "%s{\"policy\":\"%s\",\"key\":", i > 0 ? "," : "", keys[i].policy);
		quote_json(out, keys[i].of.key);
		buf_printf(out, ",\"count\":%llu,\"error\":%llu}",
			   (unsigned long long)keys[i].of.count,
			   (unsigned long long)keys[i].of.error);
	}
}

void top_json_write(const struct top_keys *t, struct slice policy, unsigned max, struct buf *out)
{
	buf_add_text(out, "\"asked\":[");
	write_kind(t, TOP_ASKED, policy, max, out);
	buf_add_text(out, "],\"refused\":[");
	write_kind(t, TOP_REFUSED, policy, max, out);
	buf_add_text(out, "]");
}
