/*
 * Every allocation of a probe fails once, each in a run of its own: what Redis says is due, two contacts through the
 * endpoint, and telling what was found. It is as if there had been no probe, or it ends as it should; every place that it
 * took is free again, and nothing of ours leaks. libcurl's allocations fail as well while a contact is made. The service,
 * and a proxy before it, is a child that answers with an address. Sanitizers have replaced malloc(): skipped there.
 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"
#include "failing_malloc.h"
#include "pool_own.h"

#ifdef SANITIZED
int main(void)
{
	puts("SKIPPED: a sanitizer has replaced malloc()");
	return 77;
}
#else

enum { ENDPOINTS = 2, WARM_UPS = 3, NTH_MAX = 20000, REPLY_MAX = 64 };

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "allocation %ld: line %d: %s\n", nth, __LINE__, \
				#condition);                                            \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

static long nth = -1;
static uv_loop_t loop;
static struct engine engine;
static struct agent agent;
static struct pool_def *def;

/* ---- What libcurl allocates ---- */

static bool
	is_under_way; /* libcurl 7.88 may divide by zero when it has no memory for its table of descriptors */

static bool curls_fails(void)
{
	return !is_under_way && fails();
}

static void *curls_malloc(size_t n)
{
	return curls_fails() ? NULL : __libc_malloc(n);
}

static void *curls_calloc(size_t n, size_t size)
{
	return curls_fails() ? NULL : __libc_calloc(n, size);
}

static void *curls_realloc(void *p, size_t n)
{
	return curls_fails() ? NULL : __libc_realloc(p, n);
}

static void curls_free(void *p)
{
	__libc_free(p);
}

static char *curls_strdup(const char *text)
{
	size_t n = strlen(text) + 1;
	char *copy = curls_malloc(n);

	return copy != NULL ? memcpy(copy, text, n) : NULL;
}

/* ---- The service ---- */

static void serve(int listener)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n"
				     "Connection: close\r\n\r\n198.51.100.7";
	static const char tunnel[] = "HTTP/1.1 200 OK\r\n\r\n";
	char request[4096];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		ssize_t n = read(fd, request, sizeof request);

		if (n > 8 && memcmp(request, "CONNECT ", 8) == 0 &&
		    write(fd, tunnel, sizeof tunnel - 1) > 0)
			n = read(fd, request, sizeof request);
		if (n > 0 && write(fd, answer, sizeof answer - 1) < 0)
			perror("write");
		close(fd);
	}
}

static uint16_t service_start(pid_t *ret_child)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0);
	CHECK(listen(listener, 64) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
	*ret_child = fork();
	if (*ret_child == 0)
		serve(listener);
	close(listener);
	return ntohs(at.sin_port);
}

/* ---- The pool ---- */

static struct pool_def *def_new(uint16_t port)
{
	struct conf_reader r = {0};
	char text[512];

	snprintf(text, sizeof text,
		 "{\"name\":\"p\",\"health\":{\"url\":\"http://127.0.0.1:%u/"
		 "\",\"exit\":\"same\",\"timeout\":\"200ms\"},"
		 "\"endpoints\":[{\"id\":\"a\",\"url\":\"direct://\"},"
		 "{\"id\":\"b\",\"url\":\"http://127.0.0.1:%u\"}]}",
		 port, port);
	json_t *value = json_loads(text, 0, NULL);

	CHECK(value != NULL);
	struct pool_def *made = pool_def_read(&r, NULL, value);

	json_decref(value);
	CHECK(made != NULL && r.n_errors == 0);
	return made;
}

static void put(char *reply, size_t *len, const void *bytes, size_t n)
{
	memcpy(reply + *len, bytes, n);
	*len += n;
}

/* We are the prober, and a probe of every endpoint is due: core/pool_script.h. */
static size_t due_write(char reply[static REPLY_MAX])
{
	const unsigned char us = 1, due[2] = {ENDPOINTS, 0};
	const double began = 1000000;
	size_t len = 0;

	put(reply, &len, &us, sizeof us);
	put(reply, &len, due, sizeof due);
	for (unsigned char i = 0; i < ENDPOINTS; i++) {
		const unsigned char endpoint[2] = {(unsigned char)(i + 1), 0};

		put(reply, &len, endpoint, sizeof endpoint);
		put(reply, &len, &began, sizeof began);
	}
	return len;
}

/* ---- A run ---- */

/* From the turn to what is told; how many probes found something. */
static unsigned probe(struct pool_service *s, struct pool_line *l)
{
	char bytes[REPLY_MAX];
	struct pool_reply reply = {.bytes = {bytes, due_write(bytes)}};
	struct buf program = {0};
	unsigned room = 0;

	uv_update_time(&loop);
	l->prober_ms = 0;
	pool_probes_turn(l, def);
	CHECK(pool_probes_ask(l, def, &program, &room));
	CHECK(room >= ENDPOINTS && l->probes_asked == room && s->probes_asked == room);
	pool_probes_due(l, def, room, &reply);
	CHECK(!reply.failed && l->probes_asked == 0 && s->probes_asked == 0);
	CHECK(l->n_probes <= ENDPOINTS && s->n_probes == l->n_probes);
	is_under_way = true;
	while (l->n_probes > 0)
		uv_run(&loop, UV_RUN_ONCE);
	is_under_way = false;
	CHECK(l->probes == NULL && s->n_probes == 0 && !l->asking_prober);
	unsigned told = pool_probes_tell(l, def, &program);

	CHECK(l->found == NULL && told <= ENDPOINTS);
	buf_release(&program);
	return told;
}

static void run_out(void)
{
	uv_run(&loop, UV_RUN_DEFAULT);
}

/* Allocation `nth` fails; false: there were not so many. */
static bool run(unsigned *ret_told)
{
	struct pool_line line = {.last = &line.first};
	struct pool_service service = {.agent = &agent, .lines = &line};
	long before = live;

	line.service = &service;
	left = nth;
	*ret_told = probe(&service, &line);
	pool_probes_stop(&service);
	run_out();
	bool failed = left < 0 && nth >= 0;

	left = -1;
	CHECK(service.handles_open == 0 && service.contacts == NULL);
	CHECK(nth < 0 || live == before);
	return failed;
}

int main(void)
{
	unsigned told, fewer = 0;
	pid_t child;

	CHECK(curl_global_init_mem(CURL_GLOBAL_DEFAULT, curls_malloc, curls_free, curls_realloc,
				   curls_strdup, curls_calloc) == CURLE_OK);
	def = def_new(service_start(&child));
	CHECK(uv_loop_init(&loop) == 0);
	engine.loop = agent.loop = &loop;
	agent.engine = &engine;
	for (int i = 0; i < WARM_UPS; i++) { /* what libraries keep once they have it */
		(void)run(&told);
		CHECK(told == ENDPOINTS);
	}
	for (nth = 0; nth < NTH_MAX && run(&told); nth++)
		fewer += told < ENDPOINTS;
	CHECK(nth > 0 && nth < NTH_MAX && fewer > 0 && told == ENDPOINTS);
	printf("%ld allocations failed; %u runs had fewer probes\n", nth, fewer);
	pool_def_unref(def);
	uv_loop_close(&loop);
	curl_global_cleanup();
	kill(child, SIGKILL);
	return 0;
}
#endif
