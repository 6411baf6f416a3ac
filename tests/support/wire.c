/*
 * Places with a long way between them, for tests: each is a network namespace with a TUN device, and whatever is sent from
 * one to another passes through here, packet by packet: later, not always, or not at all, each direction by itself.
 *
 * usage: wire PLACE…
 *
 * Says a line `place NAME ADDRESS PATH` for each, PATH being its namespace as setns(2) wants it, and `ready`. Then carries
 * out the lines that it is given, and answers each by `ok`, or `error TEXT`:
 *
 *   delay FROM TO MS         what leaves FROM for TO arrives so much later
 *   lose FROM TO PART        of it so much is lost, 0 to 1
 *   double FROM TO PART      of what is not lost so much arrives twice, 0 to 1
 *   cut FROM TO              all of it, what is on its way included
 *   join FROM TO             no more
 *   count FROM TO            answers `count CARRIED LOST FULL`, in packets: arrived; lost or cut off; no room in the queue
 *
 * Ends when its input does. Nothing has a name outside: the devices go with this process, a namespace with the last that is
 * in it or holds it open. Exits with 77 where namespaces or TUN devices can't be had, having said why.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	PLACES_MAX = 8,
	MTU = 1500,
	QUEUE_PACKETS = 4096, /* a way; a power of two */
	READ_AT_ONCE = 64,
	SKIPPED = 77,
};

static const uint32_t NETWORK =
	0x0a4d0000; /* 10.77.0.0/24: a place's last byte is its number, from 1 on */
static const double DELAY_MAX_MS = 10000;

struct packet {
	uint64_t due_ns;
	uint32_t size;
	uint8_t data[MTU];
};

/* From one place to another. No packet overtakes another, also when the delay becomes less. */
struct way {
	struct packet *queue;
	uint32_t first, end; /* of the ring, counted on for ever */
	uint64_t delay_ns;
	double loss, doubled;
	bool cut;
	uint64_t carried, lost, full;
};

struct place {
	const char *name;
	int tun, netns;
};

static struct place places[PLACES_MAX];
static int count;
static struct way ways[PLACES_MAX][PLACES_MAX];
static unsigned dice = 1;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- places ------------------------------------------------------------------------------------------------------- */

static void must(bool done, const char *what)
{
	if (done)
		return;
	printf("skip %s: %s\n", what, strerror(errno));
	exit(SKIPPED);
}

static void set_flags_up(int sock, const char *device)
{
	struct ifreq request = {0};

	strcpy(request.ifr_name, device);
	must(ioctl(sock, SIOCGIFFLAGS, &request) == 0, device);
	request.ifr_flags |= IFF_UP;
	must(ioctl(sock, SIOCSIFFLAGS, &request) == 0, device);
}

static void set_address(int sock, const char *device, unsigned long call, uint32_t address)
{
	struct ifreq request = {0};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};

	strcpy(request.ifr_name, device);
	memcpy(&request.ifr_addr, &in, sizeof in);
	must(ioctl(sock, call, &request) == 0, device);
}

/* This process stays in the namespace of the last one: a TUN device works from wherever it was opened. */
static void make_place(int number, const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	struct place *place = &places[number];
	int sock;

	place->name = name;
	must(unshare(CLONE_NEWNET) == 0, "no network namespaces");
	place->netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	must(place->netns >= 0, "/proc/self/ns/net");
	place->tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	must(place->tun >= 0, "/dev/net/tun");
	strcpy(request.ifr_name, "far");
	must(ioctl(place->tun, TUNSETIFF, &request) == 0, "no TUN devices");
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	must(sock >= 0, "no sockets");
	set_flags_up(sock, "lo");
	set_address(sock, "far", SIOCSIFADDR, NETWORK + (uint32_t)number + 1);
	set_address(sock, "far", SIOCSIFNETMASK, 0xffffff00);
	set_flags_up(sock, "far");
	close(sock);
}

/* ---- the ways ----------------------------------------------------------------------------------------------------- */

static bool lucky(double part)
{
	return part > 0 && rand_r(&dice) < part * ((double)RAND_MAX + 1);
}

static void append(struct way *way, const uint8_t *data, size_t size, uint64_t now)
{
	struct packet *packet = &way->queue[way->end % QUEUE_PACKETS];

	if (way->end - way->first == QUEUE_PACKETS) {
		way->full++;
		return;
	}
	packet->due_ns = now + way->delay_ns;
	packet->size = (uint32_t)size;
	memcpy(packet->data, data, size);
	way->end++;
}

static void enter(struct way *way, const uint8_t *data, size_t size, uint64_t now)
{
	if (way->cut || lucky(way->loss)) {
		way->lost++;
		return;
	}
	append(way, data, size, now);
	if (lucky(way->doubled))
		append(way, data, size, now);
}

static void leave(struct way *way, int tun, uint64_t now)
{
	while (way->first != way->end && way->queue[way->first % QUEUE_PACKETS].due_ns <= now) {
		struct packet *packet = &way->queue[way->first++ % QUEUE_PACKETS];

		if (!way->cut && write(tun, packet->data, packet->size) == (ssize_t)packet->size)
			way->carried++;
		else
			way->lost++;
	}
}

/* Where an IPv4 packet goes; -1: nowhere here. */
static int destination(const uint8_t *data, ssize_t size)
{
	uint32_t address;
	int number;

	if (size < 20 || data[0] >> 4 != 4)
		return -1;
	memcpy(&address, data + 16, sizeof address);
	number = (int)(ntohl(address) - NETWORK) - 1;
	return number >= 0 && number < count ? number : -1;
}

static void take_in(int from)
{
	uint8_t data[MTU];

	for (int i = 0; i < READ_AT_ONCE; i++) {
		ssize_t size = read(places[from].tun, data, sizeof data);
		int to;

		if (size <= 0)
			return;
		to = destination(data, size);
		if (to >= 0 && to != from)
			enter(&ways[from][to], data, (size_t)size, now_ns());
	}
}

/* Lets go what is due. Returns when the next will be; UINT64_MAX: nothing is on its way. */
static uint64_t let_out(void)
{
	uint64_t next = UINT64_MAX;

	for (int from = 0; from < count; from++)
		for (int to = 0; to < count; to++) {
			struct way *way = &ways[from][to];
			uint64_t due;

			leave(way, places[to].tun, now_ns());
			if (way->first == way->end)
				continue;
			due = way->queue[way->first % QUEUE_PACKETS].due_ns;
			next = due < next ? due : next;
		}
	return next;
}

/* ---- commands ----------------------------------------------------------------------------------------------------- */

static int place_of(const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(places[i].name, name) == 0)
			return i;
	return -1;
}

static bool number_of(const char *text, double most, double *ret_number)
{
	char *end;
	double number = strtod(text, &end);

	if (end == text || *end != '\0' || !(number >= 0 && number <= most))
		return false;
	*ret_number = number;
	return true;
}

static void obey(const char *line)
{
	char verb[16] = "", from_name[64] = "", to_name[64] = "", text[32] = "";
	int words = sscanf(line, "%15s %63s %63s %31s", verb, from_name, to_name, text);
	int from = place_of(from_name), to = place_of(to_name);
	struct way *way;
	double number;

	if (words < 3 || from < 0 || to < 0 || from == to) {
		printf("error not two places: %s\n", line);
		return;
	}
	way = &ways[from][to];
	if (strcmp(verb, "delay") == 0 && number_of(text, DELAY_MAX_MS, &number))
		way->delay_ns = (uint64_t)(number * 1e6);
	else if (strcmp(verb, "lose") == 0 && number_of(text, 1, &number))
		way->loss = number;
	else if (strcmp(verb, "double") == 0 && number_of(text, 1, &number))
		way->doubled = number;
	else if (strcmp(verb, "cut") == 0 && words == 3)
		way->cut = true;
	else if (strcmp(verb, "join") == 0 && words == 3)
		way->cut = false;
	else if (strcmp(verb, "count") == 0 && words == 3) {
		printf("count %llu %llu %llu\n", (unsigned long long)way->carried,
		       (unsigned long long)way->lost, (unsigned long long)way->full);
		return;
	} else {
		printf("error delay (0 to %.0f ms), lose or double (0 to 1), cut, join or count: "
		       "%s\n",
		       DELAY_MAX_MS, line);
		return;
	}
	puts("ok");
}

/* False at the end of the input. */
static bool read_commands(void)
{
	static char input[4096];
	static size_t held;
	ssize_t size = read(STDIN_FILENO, input + held, sizeof input - 1 - held);
	char *line = input, *end;

	if (size <= 0)
		return size < 0 && errno == EINTR;
	held += (size_t)size;
	input[held] = '\0';
	while ((end = strchr(line, '\n')) != NULL) {
		*end = '\0';
		obey(line);
		line = end + 1;
	}
	held -= (size_t)(line - input);
	memmove(input, line, held);
	return held < sizeof input - 1;
}

static void carry(void)
{
	struct pollfd polled[PLACES_MAX + 1];

	for (int i = 0; i < count; i++)
		polled[i] = (struct pollfd){.fd = places[i].tun, .events = POLLIN};
	polled[count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
	for (;;) {
		uint64_t next = let_out(), now = now_ns();
		uint64_t wait = next == UINT64_MAX ? 1000000000 : next > now ? next - now : 0;
		struct timespec timeout = {.tv_sec = (time_t)(wait / 1000000000),
					   .tv_nsec = (long)(wait % 1000000000)};

		if (ppoll(polled, (nfds_t)count + 1, &timeout, NULL) <= 0)
			continue;
		for (int i = 0; i < count; i++)
			if (polled[i].revents != 0)
				take_in(i);
		if (polled[count].revents != 0 && !read_commands())
			return;
	}
}

int main(int argc, char **argv)
{
	struct sched_param first = {.sched_priority = 2};

	setvbuf(stdout, NULL, _IOLBF, 0);
	count = argc - 1;
	if (count < 2 || count > PLACES_MAX) {
		fprintf(stderr, "usage: wire PLACE…, 2 to %d\n", PLACES_MAX);
		return 2;
	}
	/* What a packet waits for is its way, and not its turn on the machine; where that can't be had, it does both. */
	sched_setscheduler(0, SCHED_RR, &first);
	prctl(PR_SET_TIMERSLACK, 1);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < count; i++) {
		make_place(i, argv[i + 1]);
		for (int to = 0; to < count; to++) {
			ways[i][to].queue =
				calloc(QUEUE_PACKETS,
				       sizeof(struct packet)); /* untouched memory costs nothing */
			must(ways[i][to].queue != NULL, "no memory");
		}
	}
	for (int i = 0; i < count; i++)
		printf("place %s 10.77.0.%d /proc/%d/fd/%d\n", places[i].name, i + 1, getpid(),
		       places[i].netns);
	puts("ready");
	carry();
	return 0;
}
