#include <criterion/criterion.h>
#include <string.h>

#include "core/pool_probe.h"

static const unsigned char v6_doc[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};

/* 4: 192.0.2.7, 6: 2001:db8::1, 0: none, 9: another. */
static int found(const char *text)
{
	static const unsigned char v4[16] = {192, 0, 2, 7};
	struct pool_exit_address a;

	if (!pool_exit_address_find(slice_of(text), &a))
		return 0;
	if (memcmp(a.bytes, a.is_v6 ? v6_doc : v4, sizeof a.bytes) != 0)
		return 9;
	return a.is_v6 ? 6 : 4;
}

Test(pool_probe, an_address_in_a_text)
{
	static const struct {
		const char *text;
		int found;
	} cases[] = {
		{"192.0.2.7", 4},
		{"192.0.2.7\n", 4},
		{"{\"origin\": \"192.0.2.7\"}", 4},
		{"<body>Current IP Address: 192.0.2.7</body>", 4},
		{"ip=192.0.2.7\nts=1.2", 4},
		{"ip:192.0.2.7", 4},
		{"192.0.2.7:4711", 4},
		{"You are 192.0.2.7.", 4},
		{"version 1.2.3 says 192.0.2.7", 4},
		{"at 12:30:45 it was 192.0.2.7", 4},
		{"v192.0.2.8 192.0.2.7", 4},
		{"192.0.2.999 192.0.2.7", 4},
		{"192.0.2.7, 198.51.100.1", 4},
		{"::ffff:192.0.2.7", 4},
		{"2001:db8::1", 6},
		{"2001:0DB8:0:0:0:0:0:1", 6},
		{"{\"ip\":\"2001:db8::1\"}", 6},
		{"[2001:db8::1]", 6},
		{"It is 2001:db8::1.", 6},
		{"", 0},
		{"::", 0},
		{"std::string", 0},
		{"1.2.3", 0},
		{"1.2.3.4.5", 0},
		{"1234567890123456789012345678901234567890123456789012345678901234567890", 0},
		{"12:30:45", 0},
		{"no address at all: ...", 0},
		{"198.51.100.1", 9},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		cr_expect_eq(found(cases[i].text), cases[i].found, "%s", cases[i].text);
}

static enum pool_probe judged(enum pool_scheme scheme, enum pool_family family,
			      struct pool_contact contact)
{
	struct pool_exit_address a;

	return pool_probe_judge(scheme, family, &contact, &a);
}

static struct pool_contact answer(unsigned status, const char *body)
{
	return (struct pool_contact){
		.connect_status = 200, .status = status, .body = slice_of(body)};
}

Test(pool_probe, an_answer)
{
	cr_expect_eq(judged(POOL_HTTP, POOL_FAMILY_ANY, answer(200, "192.0.2.7")), POOL_PROBE_OK);
	cr_expect_eq(judged(POOL_HTTP, POOL_FAMILY_V4, answer(200, "192.0.2.7")), POOL_PROBE_OK);
	cr_expect_eq(judged(POOL_HTTP, POOL_FAMILY_V6, answer(200, "192.0.2.7")),
		     POOL_PROBE_FAMILY);
	cr_expect_eq(judged(POOL_HTTP, POOL_FAMILY_V4, answer(200, "2001:db8::1")),
		     POOL_PROBE_FAMILY);
	cr_expect_eq(judged(POOL_HTTP, POOL_FAMILY_V6, answer(200, "2001:db8::1")), POOL_PROBE_OK);
	cr_expect_eq(judged(POOL_HTTP, POOL_FAMILY_ANY, answer(200, "hello")), POOL_PROBE_BODY);
	cr_expect_eq(judged(POOL_HTTP, POOL_FAMILY_ANY, answer(302, "192.0.2.7")),
		     POOL_PROBE_STATUS);
	cr_expect_eq(judged(POOL_HTTP, POOL_FAMILY_ANY, answer(502, "")), POOL_PROBE_STATUS);
	cr_expect_eq(judged(POOL_HTTP, POOL_FAMILY_ANY, answer(407, "")), POOL_PROBE_STATUS);
}

/* By who was still silent when it ended: nobody had answered, the proxy had let it through, the service had begun. */
Test(pool_probe, where_it_ended)
{
	static const struct {
		enum pool_scheme scheme;
		enum pool_contact_end end;
		unsigned connect_status, status;
		enum pool_probe probe;
	} cases[] = {
		{POOL_HTTP, POOL_CONTACT_NONE, 0, 0, POOL_PROBE_CONNECT},
		{POOL_HTTP, POOL_CONTACT_LOST, 0, 0, POOL_PROBE_CONNECT},
		{POOL_HTTP, POOL_CONTACT_TIMED_OUT, 0, 0, POOL_PROBE_TIMEOUT},
		{POOL_HTTP, POOL_CONTACT_LOST, 407, 0, POOL_PROBE_AUTH},
		{POOL_HTTP, POOL_CONTACT_TIMED_OUT, 407, 0, POOL_PROBE_AUTH},
		{POOL_HTTP, POOL_CONTACT_LOST, 403, 0, POOL_PROBE_TUNNEL},
		{POOL_HTTP, POOL_CONTACT_LOST, 502, 0, POOL_PROBE_TUNNEL},
		{POOL_HTTP, POOL_CONTACT_LOST, 302, 0, POOL_PROBE_TUNNEL},
		{POOL_HTTP, POOL_CONTACT_LOST, 200, 0, POOL_PROBE_TUNNEL},
		{POOL_HTTP, POOL_CONTACT_TIMED_OUT, 200, 0, POOL_PROBE_TIMEOUT},
		{POOL_HTTP, POOL_CONTACT_TIMED_OUT, 200, 200, POOL_PROBE_TIMEOUT},
		{POOL_HTTP, POOL_CONTACT_TIMED_OUT, 200, 500, POOL_PROBE_STATUS},
		{POOL_HTTP, POOL_CONTACT_LOST, 200, 200, POOL_PROBE_BODY},
		{POOL_HTTPS, POOL_CONTACT_LOST, 0, 0, POOL_PROBE_CONNECT},
		{POOL_HTTPS, POOL_CONTACT_LOST, 200, 0, POOL_PROBE_TUNNEL},
		{POOL_SOCKS5, POOL_CONTACT_NONE, 0, 0, POOL_PROBE_CONNECT},
		{POOL_SOCKS5, POOL_CONTACT_CLOSED, 0, 0, POOL_PROBE_CONNECT},
		{POOL_SOCKS5H, POOL_CONTACT_AUTH, 0, 0, POOL_PROBE_AUTH},
		{POOL_SOCKS4, POOL_CONTACT_REFUSED, 0, 0, POOL_PROBE_TUNNEL},
		{POOL_SOCKS4A, POOL_CONTACT_LOST, 0, 0, POOL_PROBE_TUNNEL},
		{POOL_SOCKS5H, POOL_CONTACT_LOST, 0, 404, POOL_PROBE_STATUS},
		{POOL_DIRECT, POOL_CONTACT_NONE, 0, 0, POOL_PROBE_CONNECT},
		{POOL_DIRECT, POOL_CONTACT_NO_NAME, 0, 0, POOL_PROBE_NAME},
		{POOL_SOCKS5, POOL_CONTACT_NO_NAME, 0, 0, POOL_PROBE_NAME},
		{POOL_HTTP, POOL_CONTACT_NO_MEMORY, 0, 0, POOL_PROBE_NONE},
		{POOL_HTTP, POOL_CONTACT_NO_MEMORY, 200, 200, POOL_PROBE_NONE},
		{POOL_DIRECT, POOL_CONTACT_LOST, 0, 0, POOL_PROBE_CONNECT},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		cr_expect_eq(judged(cases[i].scheme, POOL_FAMILY_ANY,
				    (struct pool_contact){.end = cases[i].end,
							  .connect_status = cases[i].connect_status,
							  .status = cases[i].status,
							  .body = SLICE("192.0.2.7")}),
			     cases[i].probe, "case %zu", i);
}

Test(pool_probe, two_exits)
{
	const struct pool_exit_address one = {.bytes = {192, 0, 2, 7}},
				       two = {.bytes = {192, 0, 2, 8}},
				       six = {.is_v6 = true, .bytes = {192, 0, 2, 7}};

	cr_expect_eq(pool_probe_compare(POOL_EXIT_SAME, &one, &one), POOL_PROBE_OK);
	cr_expect_eq(pool_probe_compare(POOL_EXIT_SAME, &one, &two), POOL_PROBE_EXIT_CHANGED);
	cr_expect_eq(pool_probe_compare(POOL_EXIT_SAME, &one, &six), POOL_PROBE_EXIT_CHANGED);
	cr_expect_eq(pool_probe_compare(POOL_EXIT_ROTATING, &one, &two), POOL_PROBE_OK);
	cr_expect_eq(pool_probe_compare(POOL_EXIT_ROTATING, &one, &one), POOL_PROBE_NOT_ROTATING);
	cr_expect_eq(pool_probe_compare(POOL_EXIT_ANY, &one, &one), POOL_PROBE_OK);
}
