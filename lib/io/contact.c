/*
 * The story of a contact: contact_start() gives libcurl a handle of its own; libcurl says which descriptors to watch (on_socket) and
 * when to be called at the latest (on_timeout); what the loop sees is told to it, and whoever is done by that is collected. Every
 * path of a contact ends in contact_free(), exactly once: finish(), or contacts_close().
 *
 * libcurl's own error texts may show a URL, so they are never asked for.
 */
#include "io/contact.h"

#include <curl/curl.h>
#include <stdlib.h>

#include "core/buf.h"
#include "core/version.h"

struct watch {
	uv_poll_t poll; /* first */
	struct contacts *contacts;
	curl_socket_t fd;
};

struct contact {
	struct contact *next, **up;
	struct contacts *contacts;
	CURL *easy;
	struct buf body;
	size_t head_bytes;
	bool full; /* the body is as long as is read */
	void (*on_done)(const struct pool_contact *met, void *data);
	void *data;
};

struct contacts {
	uv_loop_t *loop;
	CURLM *multi;
	uv_timer_t timer;
	struct contact *first;
	unsigned handles;
	bool closing;
	void (*on_closed)(void *data);
	void *closed_data;
};

/* ---- One contact ---- */

static void contact_free(struct contact *c)
{
	if (c->up != NULL) {
		*c->up = c->next;
		if (c->next != NULL)
			c->next->up = c->up;
		(void)curl_multi_remove_handle(c->contacts->multi, c->easy);
	}
	curl_easy_cleanup(c->easy);
	buf_release(&c->body);
	free(c);
}

static size_t on_body(char *ptr, size_t size, size_t n, void *data)
{
	struct contact *c = data;
	size_t len = size * n, room = CONTACT_BODY_MAX - c->body.len;

	buf_add(&c->body, ptr, len < room ? len : room);
	c->full = c->body.len == CONTACT_BODY_MAX;
	return c->full || buf_failed(&c->body) ? 0 : len;
}

static size_t on_head(char *ptr, size_t size, size_t n, void *data)
{
	struct contact *c = data;

	(void)ptr;
	c->head_bytes += size * n;
	return c->head_bytes <= CONTACT_HEAD_MAX ? size * n : 0;
}

/* SOCKS said no, or nothing. */
static enum pool_contact_end socks_end(CURL *easy)
{
	long error = CURLPX_OK;

	(void)curl_easy_getinfo(easy, CURLINFO_PROXY_ERROR, &error);
	switch (error) {
	case CURLPX_IDENTD:
	case CURLPX_IDENTD_DIFFER:
	case CURLPX_LONG_PASSWD:
	case CURLPX_LONG_USER:
	case CURLPX_NO_AUTH:
	case CURLPX_USER_REJECTED:
		return POOL_CONTACT_AUTH;
	case CURLPX_RESOLVE_HOST:
		return POOL_CONTACT_NO_NAME;
	case CURLPX_CLOSED:
	case CURLPX_RECV_ADDRESS:
	case CURLPX_RECV_AUTH:
	case CURLPX_RECV_CONNECT:
	case CURLPX_RECV_REQACK:
	case CURLPX_SEND_AUTH:
	case CURLPX_SEND_CONNECT:
	case CURLPX_SEND_REQUEST:
		return POOL_CONTACT_CLOSED;
	default:
		return POOL_CONTACT_REFUSED;
	}
}

static enum pool_contact_end end_of(const struct contact *c, CURLcode code)
{
	switch (code) {
	case CURLE_OK:
		return POOL_CONTACT_WHOLE;
	case CURLE_OPERATION_TIMEDOUT:
		return POOL_CONTACT_TIMED_OUT;
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
		return POOL_CONTACT_NONE;
	case CURLE_COULDNT_RESOLVE_HOST:
		return POOL_CONTACT_NO_NAME;
	case CURLE_OUT_OF_MEMORY:
		return POOL_CONTACT_NO_MEMORY;
	case CURLE_PROXY:
		return socks_end(c->easy);
	case CURLE_WRITE_ERROR:
		if (buf_failed(&c->body))
			return POOL_CONTACT_NO_MEMORY;
		return c->full ? POOL_CONTACT_WHOLE : POOL_CONTACT_LOST;
	default:
		return POOL_CONTACT_LOST;
	}
}

static void finish(struct contact *c, CURLcode code)
{
	long connect_status = 0, status = 0;

	(void)curl_easy_getinfo(c->easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
	(void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	const struct pool_contact met = {.end = end_of(c, code),
					 .connect_status = (unsigned)connect_status,
					 .status = (unsigned)status,
					 .body = buf_slice(&c->body)};

	c->on_done(&met, c->data);
	contact_free(c);
}

/* ---- What it is to do ---- */

bool contact_url_is_valid(const char *url)
{
	CURLU *parts = curl_url();
	bool is_web = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
	bool valid =
		is_web && parts != NULL && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK;

	curl_url_cleanup(parts);
	return valid;
}

static bool set_text(CURL *easy, CURLoption option, const char *text)
{
	return curl_easy_setopt(easy, option, text) == CURLE_OK;
}

static bool set_long(CURL *easy, CURLoption option, long value)
{
	return curl_easy_setopt(easy, option, value) == CURLE_OK;
}

static bool set_credential(CURL *easy, CURLoption option, struct slice encoded,
			   struct slice session)
{
	struct buf text = {0};

	pool_url_decode(encoded, session, &text);
	buf_add(&text, "", 1);
	bool done = !buf_failed(&text) && set_text(easy, option, text.ptr);

	if (text.ptr != NULL)
		explicit_bzero(text.ptr, text.len);
	buf_release(&text);
	return done;
}

static bool set_endpoint(CURL *easy, const struct pool_url *url, struct slice session)
{
	static const long types[POOL_SCHEMES] = {
		[POOL_HTTP] = CURLPROXY_HTTP,     [POOL_HTTPS] = CURLPROXY_HTTPS,
		[POOL_SOCKS4] = CURLPROXY_SOCKS4, [POOL_SOCKS4A] = CURLPROXY_SOCKS4A,
		[POOL_SOCKS5] = CURLPROXY_SOCKS5, [POOL_SOCKS5H] = CURLPROXY_SOCKS5_HOSTNAME,
		[POOL_DIRECT] = CURLPROXY_HTTP,
	};
	struct buf host = {0};

	if (url->scheme != POOL_DIRECT)
		pool_url_host(url, &host);
	buf_add(&host, "", 1);
	bool done = !buf_failed(&host) && set_text(easy, CURLOPT_PROXY, host.ptr) &&
		    set_text(easy, CURLOPT_NOPROXY, "") &&
		    set_long(easy, CURLOPT_PROXYTYPE, types[url->scheme]) &&
		    set_long(easy, CURLOPT_HTTPPROXYTUNNEL,
			     url->scheme == POOL_HTTP || url->scheme == POOL_HTTPS) &&
		    set_long(easy, CURLOPT_SOCKS5_AUTH, (long)CURLAUTH_BASIC);

	buf_release(&host);
	if (done && url->has_user)
		done = set_credential(easy, CURLOPT_PROXYUSERNAME, url->user, session);
	if (done && url->has_password)
		done = set_credential(easy, CURLOPT_PROXYPASSWORD, url->password, session);
	return done;
}

/* One file without a directory beside it: libcurl parses that once for all handles. */
static bool set_trust(CURL *easy)
{
	const char *file = getenv("SSL_CERT_FILE");

	if (file == NULL)
		file = curl_version_info(CURLVERSION_NOW)->cainfo;
	return file == NULL ||
	       (set_text(easy, CURLOPT_CAINFO, file) && set_text(easy, CURLOPT_CAPATH, NULL) &&
		set_text(easy, CURLOPT_PROXY_CAINFO, file) &&
		set_text(easy, CURLOPT_PROXY_CAPATH, NULL));
}

/* A name that does not resolve is not waited for when its time is up: other requests are on this loop. */
static bool set_request(CURL *easy, const struct contact_order *order)
{
	long timeout_ms = order->timeout_ms < INT32_MAX ? (long)order->timeout_ms : INT32_MAX;

	return set_text(easy, CURLOPT_URL, order->url) &&
	       set_text(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
	       set_text(easy, CURLOPT_USERAGENT, "kova-agent/" KOVA_VERSION) &&
	       set_long(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1) &&
	       set_long(easy, CURLOPT_TIMEOUT_MS, timeout_ms) &&
	       set_long(easy, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms) &&
	       set_long(easy, CURLOPT_NOSIGNAL, 1) && set_long(easy, CURLOPT_QUICK_EXIT, 1) &&
	       set_long(easy, CURLOPT_FRESH_CONNECT, 1) &&
	       set_long(easy, CURLOPT_FORBID_REUSE, 1) &&
	       set_long(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0);
}

static bool set_callbacks(struct contact *c)
{
	CURL *easy = c->easy;

	return curl_easy_setopt(easy, CURLOPT_PRIVATE, c) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_WRITEDATA, c) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head) == CURLE_OK &&
	       curl_easy_setopt(easy, CURLOPT_HEADERDATA, c) == CURLE_OK;
}

struct contact *contact_start(struct contacts *all, const struct contact_order *order,
			      void (*on_done)(const struct pool_contact *met, void *data),
			      void *data)
{
	struct contact *c = calloc(1, sizeof *c);

	if (c == NULL)
		return NULL;
	*c = (struct contact){
		.contacts = all, .easy = curl_easy_init(), .on_done = on_done, .data = data};
	if (c->easy == NULL || !set_callbacks(c) || !set_trust(c->easy) ||
	    !set_request(c->easy, order) ||
	    !set_endpoint(c->easy, order->through, order->session) ||
	    curl_multi_add_handle(all->multi, c->easy) != CURLM_OK) {
		contact_free(c);
		return NULL;
	}
	c->next = all->first;
	c->up = &all->first;
	if (c->next != NULL)
		c->next->up = &c->next;
	all->first = c;
	return c;
}

/* ---- The loop ---- */

static void collect(struct contacts *all)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(all->multi, &left)) != NULL) {
		CURLcode code = message->data.result;
		struct contact *c = NULL;

		if (message->msg == CURLMSG_DONE &&
		    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &c) == CURLE_OK)
			finish(c, code);
	}
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct watch *w = (struct watch *)h;
	struct contacts *all = w->contacts;
	int flags = status < 0 ? CURL_CSELECT_ERR : 0, running;

	flags |= (events & UV_READABLE) != 0 ? CURL_CSELECT_IN : 0;
	flags |= (events & UV_WRITABLE) != 0 ? CURL_CSELECT_OUT : 0;
	(void)curl_multi_socket_action(all->multi, w->fd, flags, &running);
	collect(all);
}

static void on_timer(uv_timer_t *h)
{
	struct contacts *all = h->data;
	int running;

	(void)curl_multi_socket_action(all->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	collect(all);
}

static int on_timeout(CURLM *multi, long ms, void *data)
{
	struct contacts *all = data;

	(void)multi;
	if (ms < 0)
		(void)uv_timer_stop(&all->timer);
	else
		(void)uv_timer_start(&all->timer, on_timer, (uint64_t)ms, 0);
	return 0;
}

static void free_when_closed(struct contacts *all)
{
	void (*on_closed)(void *) = all->on_closed;
	void *data = all->closed_data;

	if (!all->closing || all->handles > 0)
		return;
	free(all);
	on_closed(data);
}

static void on_watch_closed(uv_handle_t *h)
{
	struct contacts *all = ((struct watch *)h)->contacts;

	free(h);
	all->handles--;
	free_when_closed(all);
}

static struct watch *watch_new(struct contacts *all, curl_socket_t fd)
{
	struct watch *w = calloc(1, sizeof *w);

	if (w == NULL)
		return NULL;
	w->contacts = all;
	w->fd = fd;
	if (uv_poll_init_socket(all->loop, &w->poll, fd) != 0) {
		free(w);
		return NULL;
	}
	all->handles++;
	(void)curl_multi_assign(all->multi, fd, w);
	return w;
}

/* What can't be watched ends when its time is up. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *socket_data)
{
	struct contacts *all = data;
	struct watch *w = socket_data;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (w != NULL)
			uv_close((uv_handle_t *)&w->poll, on_watch_closed);
		(void)curl_multi_assign(all->multi, fd, NULL);
		return 0;
	}
	if (w == NULL)
		w = watch_new(all, fd);
	if (w != NULL)
		(void)uv_poll_start(&w->poll,
				    ((what & CURL_POLL_IN) != 0 ? UV_READABLE : 0) |
					    ((what & CURL_POLL_OUT) != 0 ? UV_WRITABLE : 0),
				    on_poll);
	return 0;
}

/* ---- All of them ---- */

struct contacts *contacts_new(uv_loop_t *loop)
{
	struct contacts *all = calloc(1, sizeof *all);

	if (all == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(all);
		return NULL;
	}
	all->loop = loop;
	all->multi = curl_multi_init();
	if (all->multi == NULL) {
		curl_global_cleanup();
		free(all);
		return NULL;
	}
	(void)curl_multi_setopt(all->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	(void)curl_multi_setopt(all->multi, CURLMOPT_SOCKETDATA, all);
	(void)curl_multi_setopt(all->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
	(void)curl_multi_setopt(all->multi, CURLMOPT_TIMERDATA, all);
	(void)uv_timer_init(loop, &all->timer);
	all->timer.data = all;
	all->handles++;
	return all;
}

static void on_timer_closed(uv_handle_t *h)
{
	struct contacts *all = h->data;

	all->handles--;
	free_when_closed(all);
}

void contacts_close(struct contacts *all, void (*on_closed)(void *data), void *data)
{
	if (all == NULL)
		return;
	while (all->first != NULL)
		contact_free(all->first);
	(void)curl_multi_cleanup(all->multi);
	curl_global_cleanup();
	all->closing = true;
	all->on_closed = on_closed;
	all->closed_data = data;
	uv_close((uv_handle_t *)&all->timer, on_timer_closed);
}
