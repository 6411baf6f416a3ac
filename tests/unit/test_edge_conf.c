#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "edge_conf.h"

static char directory[64];

static void setup(void)
{
	strcpy(directory, "/tmp/kova-conf-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
	unsetenv("STATE_DIRECTORY");
	setenv("XDG_STATE_HOME", "/xdg", 1);
	setenv("HOME", "/home/k", 1);
}

static void teardown(void)
{
	char command[96];

	snprintf(command, sizeof command, "rm -rf %s", directory);
	cr_assert_eq(system(command), 0);
}

TestSuite(edge_conf, .init = setup, .fini = teardown);

/* Writes a file into the test's directory; its path is valid until the next call. */
static const char *file(const char *name, const char *text)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f);
	fputs(text, f);
	fclose(f);
	return path;
}

static void load(struct edge_conf *conf, const char *text)
{
	struct buf errors = {0};

	cr_assert_eq(edge_conf_load(file("agent.json", text), conf, &errors), KOVA_OK, "%.*s",
		     (int)errors.len, errors.ptr);
	cr_expect_eq(errors.len, 0);
	buf_release(&errors);
}

/* Loads a text that must be refused; the errors. */
static const char *refused(const char *text)
{
	static char said[4096];
	struct edge_conf conf;
	struct buf errors = {0};

	cr_assert_eq(edge_conf_load(file("agent.json", text), &conf, &errors), KOVA_ECONFIG, "%s",
		     text);
	snprintf(said, sizeof said, "%.*s", (int)errors.len, errors.ptr);
	buf_release(&errors);
	return said;
}

static void is_in(const char *path, const char *name, const char *what)
{
	size_t n = strlen(directory);

	cr_assert_not_null(path, "%s", what);
	cr_expect(strncmp(path, directory, n) == 0 && strcmp(path + n + 1, name) == 0, "%s: %s",
		  what, path);
}

Test(edge_conf, an_empty_file_gives_the_defaults)
{
	struct edge_conf conf;
	char host[256];

	load(&conf, "{}");
	gethostname(host, sizeof host);
	cr_expect_str_eq(conf.node, host);
	cr_expect_str_eq(conf.region, "local");
	cr_expect_str_eq(conf.listen_resp, "localhost:7411");
	cr_expect_str_eq(conf.listen_http, "localhost:7412");
	cr_expect_null(conf.listen_unix);
	cr_expect_null(conf.auth.tokens_file);
	cr_expect_not(conf.insecure);
	cr_expect_str_eq(conf.state_dir, "/xdg/kova");
	cr_expect_eq(conf.redis.mode, REDIS_EMBEDDED);
	cr_expect_eq(conf.redis.timeout_ms, 50);
	cr_expect_eq(conf.redis.connect_timeout_ms, 1000);
	cr_expect_null(conf.redis.url);
	cr_expect_eq(conf.threads, 1);
	cr_expect_null(conf.redis.password);
	cr_expect(json_is_array(conf.lists.policies) && json_is_array(conf.lists.overrides));
	edge_conf_release(&conf);
	edge_conf_release(&conf); /* a released one is empty */
}

Test(edge_conf, kafka)
{
	struct edge_conf conf;

	load(&conf, "{}");
	cr_expect_null(conf.kafka.bootstrap);
	edge_conf_release(&conf);

	file("secret", "pa ss\n");
	file("ca.pem", "x");
	load(&conf,
	     "{\"kafka\":{\"bootstrap\":\"a:1,[::1]:2\",\"security\":{\"protocol\":\"sasl_ssl\","
	     "\"ca\":\"ca.pem\",\"mechanism\":\"PLAIN\",\"user\":\"u\",\"password_file\":"
	     "\"secret\"}}}");
	cr_expect_str_eq(conf.kafka.bootstrap, "a:1,[::1]:2");
	cr_expect_eq(conf.kafka.report_ms, 500);
	cr_expect_eq(conf.kafka.protocol, KAFKA_SASL_SSL);
	cr_expect_eq(conf.kafka.mechanism, KAFKA_PLAIN);
	cr_expect_str_eq(conf.kafka.user, "u");
	cr_expect_str_eq(conf.kafka.password, "pa ss");
	is_in(conf.kafka.ca, "ca.pem", "ca");
	edge_conf_release(&conf);
}

Test(edge_conf, kafka_scram_needs_a_librdkafka_that_can)
{
	const char *text =
		"{\"kafka\":{\"bootstrap\":\"a:1\",\"security\":{\"protocol\":\"sasl_plaintext\","
		"\"mechanism\":\"SCRAM-SHA-256\",\"user\":\"u\",\"password_file\":\"secret\"}}}";
	struct edge_conf conf;

	file("secret", "s\n");
	if (rd_kafka_version() >= 0x020601ff) {
		load(&conf, text);
		edge_conf_release(&conf);
	} else {
		cr_expect_not_null(strstr(refused(text), "SCRAM needs librdkafka 2.6.1"));
	}
}

Test(edge_conf, everything_given)
{
	struct edge_conf conf;

	file("tokens", "secret\n");
	file("password", "pa ss\r\nsecond line\n");
	file("ca.pem", "x");
	file("c.pem", "x");
	file("k.pem", "x");
	load(&conf,
	     "{\"node\":\"worker-17\",\"region\":\"eu-west\",\"threads\":4,\"insecure\":true,"
	     "\"listen\":{\"resp\":\"0.0.0.0:1\",\"http\":null,\"unix\":\"run/a.sock\"},"
	     "\"auth\":{\"tokens_file\":\"tokens\"},\"state_dir\":\"/var/lib/kova\","
	     "\"redis\":{\"mode\":\"sentinel\",\"master\":\"m\",\"sentinels\":[\"a:1\",\"[::1]:2\"]"
	     ","
	     "\"user\":\"u\",\"password_file\":\"password\",\"timeout\":\"20ms\","
	     "\"connect_timeout\":\"2s\",\"ca\":\"ca.pem\",\"cert\":\"c.pem\",\"key\":\"k.pem\"},"
	     "\"policies\":[{\"name\":\"a\",\"limit\":1,\"per\":\"1s\"}],"
	     "\"overrides\":[{\"policy\":\"a\",\"key\":\"k\",\"banned\":true}]}");
	cr_expect_str_eq(conf.node, "worker-17");
	cr_expect_str_eq(conf.region, "eu-west");
	cr_expect_eq(conf.threads, 4);
	cr_expect_str_eq(conf.listen_resp, "0.0.0.0:1");
	cr_expect_null(conf.listen_http);
	is_in(conf.listen_unix, "run/a.sock", "unix");
	is_in(conf.auth.tokens_file, "tokens", "tokens_file");
	is_in(conf.redis.ca, "ca.pem", "ca");
	is_in(conf.redis.cert, "c.pem", "cert");
	is_in(conf.redis.key, "k.pem", "key");
	cr_expect_str_eq(conf.state_dir, "/var/lib/kova");
	cr_expect_eq(conf.redis.mode, REDIS_SENTINEL);
	cr_expect_str_eq(conf.redis.master, "m");
	cr_assert_eq(conf.redis.n_addresses, 2);
	cr_expect_str_eq(conf.redis.addresses[1], "[::1]:2");
	cr_expect_str_eq(conf.redis.user, "u");
	cr_expect_str_eq(conf.redis.password, "pa ss");
	cr_expect_eq(conf.redis.timeout_ms, 20);
	cr_expect_eq(conf.redis.connect_timeout_ms, 2000);
	cr_expect_eq(json_array_size(conf.lists.policies), 1);
	cr_expect_eq(json_array_size(conf.lists.overrides), 1);
	edge_conf_release(&conf);
}

Test(edge_conf, redis_in_other_shapes)
{
	struct edge_conf conf;

	load(&conf, "{\"redis\":{\"mode\":\"cluster\",\"nodes\":[\"a:1\"]}}");
	cr_expect_eq(conf.redis.mode, REDIS_CLUSTER);
	cr_expect_str_eq(conf.redis.addresses[0], "a:1");
	edge_conf_release(&conf);
	load(&conf, "{\"redis\":{\"mode\":\"standalone\",\"url\":\"rediss://u:p%40@h:6380/2\"}}");
	cr_expect_str_eq(conf.redis.url, "rediss://u:p%40@h:6380/2");
	edge_conf_release(&conf);
}

Test(edge_conf, regions)
{
	struct edge_conf conf;

	load(&conf, "{}");
	cr_expect_eq(conf.regions.n, 0);
	edge_conf_release(&conf);
	load(&conf, "{\"region\":\"us\",\"regions\":{\"us\":{\"weight\":0},\"eu\":{\"redis\":"
		    "{\"mode\":\"standalone\",\"url\":\"redis://h:1\"},\"floor\":0.29}}}");
	cr_assert_eq(conf.regions.n, 2);
	cr_expect_eq(conf.regions.own, 1);
	cr_expect_str_eq(conf.regions.of[0].name, "eu");
	cr_expect(conf.regions.of[0].has_redis && conf.regions.of[1].has_redis);
	cr_expect_str_eq(conf.regions.of[0].redis.url, "redis://h:1");
	cr_expect_eq(conf.regions.of[0].redis.timeout_ms, 1000);
	cr_expect_eq(conf.regions.of[0].redis.max_skew_ms, 250);
	cr_expect_eq(conf.regions.of[0].floor_ppm, 290000);
	cr_expect_eq(conf.regions.of[1].floor_ppm, 50000);
	cr_expect_eq(edge_regions_home(&conf.regions, SLICE("acme/u7")), 0);
	cr_expect_eq(conf.redis.mode, REDIS_EMBEDDED);
	edge_conf_release(&conf);
}

Test(edge_conf, the_own_regions_redis_is_given_at_either_place)
{
#define OWN "{\"mode\":\"standalone\",\"url\":\"redis://h:1\"}"
	static const char *const texts[] = {
		"{\"redis\":" OWN ",\"region\":\"eu\",\"regions\":{\"eu\":{},\"us\":{}}}",
		"{\"region\":\"eu\",\"regions\":{\"eu\":{\"redis\":" OWN "},\"us\":{}}}",
		"{\"redis\":" OWN ",\"region\":\"eu\",\"regions\":{\"eu\":{\"redis\":" OWN
		"},\"us\":{}}}",
	};

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct edge_conf conf;

		load(&conf, texts[i]);
		cr_expect_str_eq(conf.redis.url, "redis://h:1");
		cr_expect_eq(conf.redis.timeout_ms, 50);
		cr_expect(conf.regions.of[0].has_redis);
		cr_expect_null(conf.regions.of[0].redis.url);
		cr_expect_not(conf.regions.of[1].has_redis);
		edge_conf_release(&conf);
	}
}

Test(edge_conf, where_the_state_is)
{
	static const char *const cases[][4] = {
		{"/run/a:/run/b", "/xdg", "/home/k", "/run/a"},
		{NULL, "/xdg", "/home/k", "/xdg/kova"},
		{NULL, "relative", "/home/k", "/home/k/.local/state/kova"},
		{NULL, NULL, "/home/k", "/home/k/.local/state/kova"},
	};
	static const char *const names[] = {"STATE_DIRECTORY", "XDG_STATE_HOME", "HOME"};
	struct edge_conf conf;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		for (size_t j = 0; j < 3; j++) {
			unsetenv(names[j]);
			if (cases[i][j] != NULL)
				setenv(names[j], cases[i][j], 1);
		}
		load(&conf, "{}");
		cr_expect_str_eq(conf.state_dir, cases[i][3]);
		edge_conf_release(&conf);
	}
	load(&conf, "{\"state_dir\":\"state\"}");
	is_in(conf.state_dir, "state", "state_dir");
	edge_conf_release(&conf);
	unsetenv("HOME");
	cr_expect_not_null(strstr(refused("{}"), "`state_dir` is missing"));
}

Test(edge_conf, beyond_loopback_needs_tokens_or_insecure)
{
	static const char *const local[] = {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1",
					    "127.0.0.1:0"};
	static const char *const remote[] = {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[fe80::1]:1"};
	struct edge_conf conf;
	char text[160];

	for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
		snprintf(text, sizeof text, "{\"listen\":{\"http\":\"%s\"}}", local[i]);
		load(&conf, text);
		edge_conf_release(&conf);
	}
	for (size_t i = 0; i < sizeof remote / sizeof remote[0]; i++) {
		snprintf(text, sizeof text, "{\"listen\":{\"http\":\"%s\"}}", remote[i]);
		cr_expect_not_null(strstr(refused(text), ":1:19: `http` listens beyond loopback"),
				   "%s", remote[i]);
		snprintf(text, sizeof text, "{\"insecure\":true,\"listen\":{\"http\":\"%s\"}}",
			 remote[i]);
		load(&conf, text);
		cr_expect(conf.insecure);
		edge_conf_release(&conf);
		file("tokens", "t\n");
		snprintf(text, sizeof text,
			 "{\"auth\":{\"tokens_file\":\"tokens\"},\"listen\":{\"http\":\"%s\"}}",
			 remote[i]);
		load(&conf, text);
		edge_conf_release(&conf);
	}
}

Test(edge_conf, a_password_is_in_no_error)
{
	static const char *const texts[] = {
		"{\"redis\":{\"mode\":\"standalone\",\"url\":\"redis://u:hunter2@h:99999\"}}",
		"{\"redis\":{\"mode\":\"standalone\",\"url\":\"hunter2\"}}",
		"{\"redis\":{\"mode\":\"standalone\",\"url\":\"redis://u:hunter2%zz@h:1\"}}",
		"{\"redis\":{\"mode\":\"cluster\",\"url\":\"redis://u:hunter2@h:1\"}}",
		("{\"redis\":{\"mode\":\"standalone\",\"url\":\"redis://u:hunter2@h:1\","
		 "\"user\":\"u\"}}"),
		"{\"redis\":{\"mode\":\"standalone\",\"url\":[\"redis://u:hunter2@h:1\"]}}",
		"{\"redis\":{\"mode\":\"standalone\",\"url\":\"redis://u:hunter2@h:1\" \"x\":1}}",
	};

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		const char *said = refused(texts[i]);

		cr_expect_null(strstr(said, "hunter2"), "%s", said);
	}
}

/* ---- Files with errors, each beside the errors that it gives (KOVA_REFRESH=1 writes those anew). ---- */

#define BAD "tests/unit/bad_conf/"

/* What loading the file says, without the directory's name. */
static void errors_of(const char *name, struct buf *ret_said)
{
	char path[256];
	struct edge_conf conf;
	struct buf errors = {0};

	snprintf(path, sizeof path, BAD "%s", name);
	cr_expect_eq(edge_conf_load(path, &conf, &errors), KOVA_ECONFIG, "%s", name);
	buf_add(&errors, "", 1);
	for (const char *at = errors.ptr, *found;; at = found + strlen(BAD)) {
		found = strstr(at, BAD);
		buf_add(ret_said, at, found != NULL ? (size_t)(found - at) : strlen(at));
		if (found == NULL)
			break;
	}
	buf_release(&errors);
}

static void compare(const char *name)
{
	char path[256], expected[8192];
	struct buf said = {0};

	errors_of(name, &said);
	snprintf(path, sizeof path, BAD "%.*s.txt", (int)(strlen(name) - 5), name);
	if (getenv("KOVA_REFRESH") != NULL) {
		FILE *out = fopen(path, "w");

		fwrite(said.ptr, 1, said.len, out);
		fclose(out);
	}
	FILE *f = fopen(path, "r");

	cr_assert_not_null(f, "%s is missing", path);
	size_t n = fread(expected, 1, sizeof expected, f);

	fclose(f);
	cr_expect(slice_equal(buf_slice(&said), (struct slice){expected, n}), "%s gave\n%.*s", name,
		  (int)said.len, said.ptr);
	buf_release(&said);
}

Test(edge_conf, files_with_errors)
{
	DIR *d = opendir(BAD);
	size_t n = 0;

	cr_assert_not_null(d, "to be run in the source directory");
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		size_t len = strlen(e->d_name);

		if (len > 5 && strcmp(e->d_name + len - 5, ".json") == 0) {
			compare(e->d_name);
			n++;
		}
	}
	closedir(d);
	cr_expect_gt(n, 20);
}
