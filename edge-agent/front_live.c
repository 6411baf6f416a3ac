/* Who watches, over HTTP: the dashboard's pages, and the stream of what happens. */
#include "http_call.h"
#include "io/web_site.h"
#include "live.h"

extern const struct web_site site_agent;

void handle_pages(struct http_call *c, const struct http_request *r)
{
	const struct web_file *f = web_site_find(&site_agent, r);

	if (f == NULL) {
		call_problem(c, 404, "there is no such file, or no longer: load `/` again");
		return;
	}
	struct http_answer a = web_site_answer(&site_agent, f, r, call_fields(c));

	call_answer_with(c, &a);
}

void handle_stream(struct http_call *c, const struct http_request *r)
{
	if (!call_query(c, r->query, NULL, 0))
		return;
	if (http_exchange_is_head(c->exchange)) {
		call_answer_with(c, &http_event_stream);
		return;
	}
	c->viewer = (struct live_viewer){
		.exchange = c->exchange, .conn = c->front->conn, .token = c->token};
	if (!live_join(call_agent(c), &c->viewer)) {
		buf_add_text(call_fields(c), "Retry-After: 5\r\n");
		call_problem(c, 503, "too many watch already; at most 64 may at a time");
		return;
	}
	http_exchange_stream(c->exchange, &http_event_stream);
}
