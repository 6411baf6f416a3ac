#include "io/transfers.h"

#include <stdlib.h>
#include <string.h>

enum { AGAIN_MS = 100 };

struct watch {
	uv_poll_t poll; /* first */
	struct transfers *of;
	curl_socket_t fd;
};

struct transfers {
	uv_loop_t *loop;
	CURLM *multi;
	uv_timer_t timer;
	unsigned handles;
	bool closing, in_doubt;
	void (*on_done)(CURL *easy, CURLcode code, void *data);
	void *done_data;
	void (*on_closed)(void *data);
	void *closed_data;
};

/* ---- Options ---- */

bool easy_set_text(CURL *easy, CURLoption option, const char *text)
{
	return curl_easy_setopt(easy, option, text) == CURLE_OK;
}

bool easy_set_long(CURL *easy, CURLoption option, long value)
{
	return curl_easy_setopt(easy, option, value) == CURLE_OK;
}

/* One file without a directory beside it: libcurl parses that once for all handles. */
bool easy_set_trust(CURL *easy)
{
	const char *file = getenv("SSL_CERT_FILE");

	if (file == NULL)
		file = curl_version_info(CURLVERSION_NOW)->cainfo;
	return file == NULL || (easy_set_text(easy, CURLOPT_CAINFO, file) &&
				easy_set_text(easy, CURLOPT_CAPATH, NULL) &&
				easy_set_text(easy, CURLOPT_PROXY_CAINFO, file) &&
				easy_set_text(easy, CURLOPT_PROXY_CAPATH, NULL));
}

bool web_url_is_valid(const char *url)
{
	CURLU *parts = curl_url();
	bool is_web = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
	bool valid =
		is_web && parts != NULL && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK;

	curl_url_cleanup(parts);
	return valid;
}

/* ---- The loop ---- */

static void collect(struct transfers *l)
{
	CURLMsg *message;
	int left;

	while (!l->closing && (message = curl_multi_info_read(l->multi, &left)) != NULL)
		if (message->msg == CURLMSG_DONE)
			l->on_done(message->easy_handle, message->data.result, l->done_data);
}

static void on_timer(uv_timer_t *h);

static void timer_set(struct transfers *l, long ms)
{
	if (ms < 0)
		(void)uv_timer_stop(&l->timer);
	else
		(void)uv_timer_start(&l->timer, on_timer, (uint64_t)ms, 0);
}

/*
 * Where memory was out libcurl may have said of a transfer neither what to watch nor when to be called: it is called soon, and
 * asked, so that each ends when its time is up at the latest.
 */
static void act(struct transfers *l, curl_socket_t fd, int flags)
{
	bool failed;
	int running;
	long ms = AGAIN_MS;

	failed = curl_multi_socket_action(l->multi, fd, flags, &running) != CURLM_OK;
	if (failed || (l->in_doubt && curl_multi_timeout(l->multi, &ms) == CURLM_OK))
		timer_set(l, ms);
	l->in_doubt = failed;
	collect(l);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct watch *w = (struct watch *)h;
	struct transfers *l = w->of;
	int flags = status < 0 ? CURL_CSELECT_ERR : 0;

	flags |= (events & UV_READABLE) != 0 ? CURL_CSELECT_IN : 0;
	flags |= (events & UV_WRITABLE) != 0 ? CURL_CSELECT_OUT : 0;
	act(l, w->fd, flags);
}

static void on_timer(uv_timer_t *h)
{
	act(h->data, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timeout(CURLM *multi, long ms, void *data)
{
	(void)multi;
	timer_set(data, ms);
	return 0;
}

static void free_when_closed(struct transfers *l)
{
	void (*on_closed)(void *) = l->on_closed;
	void *data = l->closed_data;

	if (!l->closing || l->handles > 0)
		return;
	free(l);
	on_closed(data);
}

static void on_watch_closed(uv_handle_t *h)
{
	struct transfers *l = ((struct watch *)h)->of;

	free(h);
	l->handles--;
	free_when_closed(l);
}

static struct watch *watch_new(struct transfers *l, curl_socket_t fd)
{
	struct watch *w = calloc(1, sizeof *w);

	if (w == NULL)
		return NULL;
	w->of = l;
	w->fd = fd;
	if (uv_poll_init_socket(l->loop, &w->poll, fd) != 0) {
		free(w);
		return NULL;
	}
	l->handles++;
	(void)curl_multi_assign(l->multi, fd, w);
	return w;
}

/* What can't be watched ends when its time is up. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *data, void *socket_data)
{
	struct transfers *l = data;
	struct watch *w = socket_data;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (w != NULL)
			uv_close((uv_handle_t *)&w->poll, on_watch_closed);
		(void)curl_multi_assign(l->multi, fd, NULL);
		return 0;
	}
	if (w == NULL)
		w = watch_new(l, fd);
	if (w != NULL)
		(void)uv_poll_start(&w->poll,
				    ((what & CURL_POLL_IN) != 0 ? UV_READABLE : 0) |
					    ((what & CURL_POLL_OUT) != 0 ? UV_WRITABLE : 0),
				    on_poll);
	return 0;
}

/* ---- Life ---- */

struct transfers *transfers_new(uv_loop_t *loop,
				void (*on_done)(CURL *easy, CURLcode code, void *data), void *data)
{
	struct transfers *l = calloc(1, sizeof *l);

	if (l == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(l);
		return NULL;
	}
	l->loop = loop;
	l->on_done = on_done;
	l->done_data = data;
	l->multi = curl_multi_init();
	if (l->multi == NULL) {
		curl_global_cleanup();
		free(l);
		return NULL;
	}
	(void)curl_multi_setopt(l->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	(void)curl_multi_setopt(l->multi, CURLMOPT_SOCKETDATA, l);
	(void)curl_multi_setopt(l->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
	(void)curl_multi_setopt(l->multi, CURLMOPT_TIMERDATA, l);
	(void)uv_timer_init(loop, &l->timer);
	l->timer.data = l;
	l->handles++;
	return l;
}

static void on_timer_closed(uv_handle_t *h)
{
	struct transfers *l = h->data;

	l->handles--;
	free_when_closed(l);
}

void transfers_close(struct transfers *l, void (*on_closed)(void *data), void *data)
{
	(void)curl_multi_cleanup(l->multi);
	curl_global_cleanup();
	l->closing = true;
	l->on_closed = on_closed;
	l->closed_data = data;
	uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}

bool transfers_add(struct transfers *l, CURL *easy)
{
	return curl_multi_add_handle(l->multi, easy) == CURLM_OK;
}

void transfers_remove(struct transfers *l, CURL *easy)
{
	(void)curl_multi_remove_handle(l->multi, easy);
}
