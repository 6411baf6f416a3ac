#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/auth.h"

static char path[64];

static void write_file(const char *text)
{
	FILE *f;
	int fd;

	if (path[0] == '\0') {
		snprintf(path, sizeof path, "/tmp/kova-test-auth-XXXXXX");
		fd = mkstemp(path);
		cr_assert_geq(fd, 0);
		(void)close(fd);
	}
	f = fopen(path, "w");
	cr_assert_not_null(f);
	fputs(text, f);
	fclose(f);
}

static struct auth *load(const char *text)
{
	struct buf error = {0};
	struct auth *a;

	write_file(text);
	a = auth_new(&(struct auth_terms){.tokens_file = path}, &error);
	cr_assert_not_null(a, "%.*s", (int)error.len, error.ptr);
	buf_release(&error);
	return a;
}

static void remove_file(void)
{
	if (path[0] != '\0')
		(void)unlink(path);
}

TestSuite(auth, .fini = remove_file);

static void expect(const struct auth *a, const char *token, const char *name, unsigned scopes)
{
	const struct auth_token *t = auth_find(a, slice_of(token));

	cr_assert_not_null(t, "%s", token);
	cr_assert_str_eq(t->name, name);
	cr_assert_eq(t->scopes, scopes);
}

Test(auth, no_file_is_open)
{
	struct buf error = {0};
	struct auth *a = auth_new(&(struct auth_terms){0}, &error);

	cr_assert(!auth_required(a));
	cr_assert_null(auth_find(a, SLICE("x")));
	auth_free(a);
	auth_free(NULL);
}

Test(auth, names_tokens_and_scopes)
{
	struct auth *a = load("# tokens\n"
			      "\n"
			      "bare-secret\n"
			      "  worker  s3cr3t-1\tcheck  # a comment\r\n"
			      "ops s3cr3t#2 check admin\n"
			      "only-check check\n"
			      "boss s3cr3t-3 admin");

	cr_assert(auth_required(a));
	expect(a, "bare-secret", "line-3", AUTH_CHECK | AUTH_ADMIN);
	expect(a, "s3cr3t-1", "worker", AUTH_CHECK);
	expect(a, "s3cr3t#2", "ops", AUTH_CHECK | AUTH_ADMIN);
	expect(a, "only-check", "line-6", AUTH_CHECK);
	expect(a, "s3cr3t-3", "boss", AUTH_ADMIN);
	auth_free(a);
}

Test(auth, nothing_near_a_token_is_one)
{
	struct auth *a = load("s3cr3t\n");
	char long_one[AUTH_TOKEN_MAX + 2];

	memset(long_one, 's', sizeof long_one);
	cr_assert_null(auth_find(a, SLICE("")));
	cr_assert_null(auth_find(a, SLICE("s3cr3")));
	cr_assert_null(auth_find(a, SLICE("s3cr3tt")));
	cr_assert_null(auth_find(a, SLICE("s3cr3t\0")));
	cr_assert_null(auth_find(a, SLICE("S3cr3t")));
	cr_assert_null(auth_find(a, SLICE("\0\0\0\0\0\0")));
	cr_assert_null(auth_find(a, (struct slice){long_one, sizeof long_one}));
	auth_free(a);
}

Test(auth, length_counts_in_all_its_bits)
{
	struct auth *a;
	char text[AUTH_TOKEN_MAX + 2], zeros[AUTH_TOKEN_MAX];

	memset(text, 't', AUTH_TOKEN_MAX);
	memcpy(text + AUTH_TOKEN_MAX, "\n", 2);
	a = load(text);
	expect(a, (text[AUTH_TOKEN_MAX] = '\0', text), "line-1", AUTH_CHECK | AUTH_ADMIN);
	memset(zeros, 't', sizeof zeros);
	cr_assert_null(auth_find(a, (struct slice){zeros, sizeof zeros - 1}));
	auth_free(a);
}

static void expect_error(const char *text, unsigned line, const char *has)
{
	struct buf error = {0};
	char where[96];

	write_file(text);
	cr_assert_null(auth_new(&(struct auth_terms){.tokens_file = path}, &error), "%s", text);
	buf_add(&error, "", 1);
	snprintf(where, sizeof where, "%s:%u: ", path, line);
	cr_assert_eq(strncmp(error.ptr, where, strlen(where)), 0, "%s", error.ptr);
	cr_assert_not_null(strstr(error.ptr, has), "%s", error.ptr);
	cr_assert_null(strstr(error.ptr, "s3cr3t"), "%s", error.ptr);
	buf_release(&error);
}

Test(auth, errors_name_the_line_and_no_token)
{
	expect_error("ok s3cr3t-0\n\nworker s3cr3t-1 chekc\n", 3, "[NAME] TOKEN [check|admin]");
	expect_error("check admin\n", 1, "there is no token");
	expect_error("a s3cr3t\nb s3cr3t\n", 2, "the same token as in line 1");
	expect_error("na/me s3cr3t\n", 1, "a name has");
	expect_error("a b c d e f g h i s3cr3t\n", 1, "too many words");
}

Test(auth, a_file_without_tokens_is_an_error_of_no_line)
{
	struct buf error = {0};
	char where[96];

	write_file("# nothing\n");
	cr_assert_null(auth_new(&(struct auth_terms){.tokens_file = path}, &error));
	buf_add(&error, "", 1);
	snprintf(where, sizeof where, "%s: there is no token in the file", path);
	cr_assert_eq(strncmp(error.ptr, where, strlen(where)), 0, "%s", error.ptr);
	buf_release(&error);
}

Test(auth, a_missing_file_is_an_error)
{
	struct buf error = {0};

	cr_assert_null(
		auth_new(&(struct auth_terms){.tokens_file = "/nonexistent/tokens"}, &error));
	cr_assert_gt(error.len, 0);
	buf_release(&error);
}

Test(auth, reload_keeps_revokes_and_adds)
{
	struct auth *a = load("one s3cr3t-1 check\ntwo s3cr3t-2\n");
	const struct auth_token *one = auth_find(a, SLICE("s3cr3t-1"));
	const struct auth_token *two = auth_find(a, SLICE("s3cr3t-2"));
	struct buf error = {0};

	write_file("uno s3cr3t-1 admin\nthree s3cr3t-3\n");
	cr_assert_eq(auth_reload(a, &(struct auth_terms){.tokens_file = path}, &error), KOVA_OK);
	cr_assert_eq(auth_find(a, SLICE("s3cr3t-1")), one);
	expect(a, "s3cr3t-1", "uno", AUTH_ADMIN);
	cr_assert_null(auth_find(a, SLICE("s3cr3t-2")));
	cr_assert_eq(two->scopes, 0);
	expect(a, "s3cr3t-3", "three", AUTH_CHECK | AUTH_ADMIN);

	write_file("broken line with too many words\n");
	cr_assert_eq(auth_reload(a, &(struct auth_terms){.tokens_file = path}, &error),
		     KOVA_ECONFIG);
	expect(a, "s3cr3t-3", "three", AUTH_CHECK | AUTH_ADMIN);

	write_file("two s3cr3t-2 check\n");
	cr_assert_eq(auth_reload(a, &(struct auth_terms){.tokens_file = path}, &error), KOVA_OK);
	cr_assert_eq(two->scopes, AUTH_CHECK);

	cr_assert_eq(auth_reload(a, &(struct auth_terms){0}, &error), KOVA_OK);
	cr_assert(!auth_required(a));
	cr_assert_eq(two->scopes, 0);
	buf_release(&error);
	auth_free(a);
}

/* ---- Certificates ---- */

static char names[4][24] = {"spiffe://acme/worker", "Worker.Example", "ops", "*.pool.example"};
static const struct auth_certificate listed[] = {
	{names[0], AUTH_CHECK},
	{names[1], AUTH_CHECK | AUTH_ADMIN},
	{names[2], AUTH_ADMIN},
	{names[3], AUTH_CHECK},
};

static struct auth *with_certificates(size_t n)
{
	const struct auth_terms terms = {.certificates = listed, .n_certificates = n};
	struct buf error = {0};
	struct auth *a = auth_new(&terms, &error);

	cr_assert_not_null(a);
	return a;
}

/* `text` as tls_session_names() writes it, with its last NUL. */
#define STANDS_FOR(a, text) auth_find_certificate((a), (struct slice){(text), sizeof(text)})

Test(auth, certificates_by_their_names)
{
	struct auth *a = with_certificates(4);
	const struct auth_token *t = STANDS_FOR(a, "uri:spiffe://acme/worker");

	cr_assert(auth_required(a));
	cr_assert_str_eq(t->name, "spiffe://acme/worker");
	cr_assert_eq(t->scopes, AUTH_CHECK);
	cr_assert(t->is_certificate);
	t = STANDS_FOR(a, "dns:other.example\0dns:wORKER.eXAMPLE\0cn:x");
	cr_assert_str_eq(t->name, "Worker.Example");
	cr_assert_eq(t->scopes, AUTH_CHECK | AUTH_ADMIN);
	cr_assert_not_null(STANDS_FOR(a, "cn:ops"));
	cr_assert_not_null(STANDS_FOR(a, "dns:*.pool.example"));
	cr_assert_eq(STANDS_FOR(a, "uri:spiffe://acme/worker\0dns:worker.example")->scopes,
		     AUTH_CHECK);
	cr_assert_null(auth_find(a, SLICE("ops")), "no name is a token");
	auth_free(a);
}

Test(auth, no_other_certificate_stands_for_one)
{
	struct auth *a = with_certificates(4);

	cr_assert_null(auth_find_certificate(a, (struct slice){0}));
	cr_assert_null(STANDS_FOR(a, "uri:spiffe://acme/Worker"), "the case of a URI counts");
	cr_assert_null(STANDS_FOR(a, "uri:spiffe://acme/worker2"));
	cr_assert_null(STANDS_FOR(a, "uri:ops"), "a URI is no DNS name");
	cr_assert_null(STANDS_FOR(a, "dns:spiffe://acme/worker"), "nor the other way round");
	cr_assert_null(STANDS_FOR(a, "dns:a.pool.example"), "a listed name is no pattern");
	cr_assert_null(STANDS_FOR(a, "dns:other.example\0cn:ops"), "CN beside a DNS name");
	cr_assert_null(STANDS_FOR(a, "uri:spiffe://acme/x\0cn:ops"), "CN beside a URI");
	cr_assert_null(STANDS_FOR(a, "email:ops"));
	cr_assert_null(STANDS_FOR(a, "dns:"));
	auth_free(a);
}

Test(auth, certificates_change_by_a_reload)
{
	struct auth *a = with_certificates(3), *other = with_certificates(0);
	const struct auth_token *ops = STANDS_FOR(a, "cn:ops");
	const struct auth_terms two = {.certificates = listed, .n_certificates = 2};
	struct buf error = {0};

	cr_assert(!auth_required(other));
	cr_assert_eq(auth_follow(other, a), KOVA_OK);
	cr_assert(auth_required(other));
	cr_assert_not_null(STANDS_FOR(other, "cn:ops"));
	cr_assert_eq(auth_reload(a, &two, &error), KOVA_OK);
	cr_assert_eq(ops->scopes, 0, "who holds it sees that it is revoked");
	cr_assert_null(STANDS_FOR(a, "cn:ops"));
	cr_assert_not_null(STANDS_FOR(a, "dns:worker.example"));
	cr_assert_eq(auth_follow(other, a), KOVA_OK);
	cr_assert_null(STANDS_FOR(other, "cn:ops"));
	buf_release(&error);
	auth_free(a);
	auth_free(other);
}
