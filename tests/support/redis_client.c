#include "redis_client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	abort();
}

void redis_client_connect(struct redis_client *c, const char *socket_path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	*c = (struct redis_client){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	strcpy(to.sun_path, socket_path);
	if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&to, sizeof to) != 0)
		fail("redis_client: connect");
}

void redis_client_close(struct redis_client *c)
{
	close(c->fd);
	buf_release(&c->in);
}

static void read_more(struct redis_client *c)
{
	char *p = buf_reserve(&c->in, 65536);
	ssize_t n = p == NULL ? -1 : read(c->fd, p, 65536);

	if (n <= 0)
		fail("redis_client: read");
	c->in.len += (size_t)n;
}

/* The next line, as an owned slice without its end. */
static struct slice read_line(struct redis_client *c)
{
	char *end, *copy;

	while (c->in.len == 0 || (end = memchr(c->in.ptr, '\n', c->in.len)) == NULL)
		read_more(c);
	size_t len = (size_t)(end - c->in.ptr);
	copy = malloc(len);
	if (copy == NULL)
		fail("redis_client: malloc");
	memcpy(copy, c->in.ptr, len);
	copy[len - 1] = '\0';
	buf_consume(&c->in, len + 1);
	return (struct slice){copy, len - 1};
}

static struct slice read_bulk(struct redis_client *c, size_t len)
{
	char *copy = malloc(len + 1);

	if (copy == NULL)
		fail("redis_client: malloc");
	while (c->in.len < len + 2)
		read_more(c);
	memcpy(copy, c->in.ptr, len);
	copy[len] = '\0';
	buf_consume(&c->in, len + 2);
	return (struct slice){copy, len};
}

static struct redis_answer read_answer(struct redis_client *c)
{
	struct slice line = read_line(c);
	struct redis_answer a = {.type = line.ptr[0], .integer = strtoll(line.ptr + 1, NULL, 10)};

	if (a.type == '+' || a.type == '-') {
		a.text = line;
		return a;
	}
	free((char *)line.ptr);
	if ((a.type == '$' || a.type == '*') && a.integer < 0)
		a.type = '_';
	if (a.type == '$')
		a.text = read_bulk(c, (size_t)a.integer);
	if (a.type == '*') {
		a.n = (size_t)a.integer;
		a.element = calloc(a.n + 1, sizeof *a.element);
		for (size_t i = 0; i < a.n && a.element != NULL; i++)
			a.element[i] = read_answer(c);
	}
	return a;
}

struct redis_answer redis_client_send(struct redis_client *c, struct slice command)
{
	for (size_t at = 0; at < command.len;) {
		ssize_t n = write(c->fd, command.ptr + at, command.len - at);

		if (n <= 0)
			fail("redis_client: write");
		at += (size_t)n;
	}
	return read_answer(c);
}

__attribute__((format(printf, 2, 0))) static struct redis_answer
command_v(struct redis_client *c, const char *format, va_list arguments)
{
	char line[4096], *save = NULL;
	struct buf words = {0}, command = {0};
	struct redis_answer a;
	int n = 0;

	vsnprintf(line, sizeof line, format, arguments);
	for (char *word = strtok_r(line, " ", &save); word != NULL;
	     word = strtok_r(NULL, " ", &save), n++)
		buf_printf(&words, "$%zu\r\n%s\r\n", strlen(word), word);
	buf_printf(&command, "*%d\r\n", n);
	buf_add_slice(&command, buf_slice(&words));
	a = redis_client_send(c, buf_slice(&command));
	buf_release(&words);
	buf_release(&command);
	return a;
}

struct redis_answer redis_client_command(struct redis_client *c, const char *format, ...)
{
	va_list arguments;
	struct redis_answer a;

	va_start(arguments, format);
	a = command_v(c, format, arguments);
	va_end(arguments);
	return a;
}

int64_t redis_client_integer(struct redis_client *c, const char *format, ...)
{
	va_list arguments;
	struct redis_answer a;
	int64_t integer;

	va_start(arguments, format);
	a = command_v(c, format, arguments);
	va_end(arguments);
	integer = a.type == ':' ? a.integer : INT64_MIN;
	redis_answer_release(&a);
	return integer;
}

void redis_answer_release(struct redis_answer *a)
{
	for (size_t i = 0; i < a->n; i++)
		redis_answer_release(&a->element[i]);
	free(a->element);
	free((char *)a->text.ptr);
	*a = (struct redis_answer){0};
}
