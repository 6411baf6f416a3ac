#!/usr/bin/env python3
"""Writes the dashboards beside this file: dashboards/kova-*.json. Change them here, then run it again.

usage: generate.py [DIRECTORY]      DIRECTORY: where to, instead of dashboards/
"""

import json
import os
import sys

from panels import BAD, BYTES, EACH, GOOD, PERCENT, SECONDS, WARN, Dashboard, bars, row, series, stat, states, target

AGENT = 'job=~"$job",instance=~"$instance"'
POLICY = AGENT + ',policy=~"$policy"'
POOL = AGENT + ',pool=~"$pool"'
COORDINATOR = AGENT
RATE = "[$__rate_interval]"


def rate(metric, by="", labels=AGENT):
    return f"sum by ({by}) (rate({metric}{{{labels}}}{RATE}))" if by else f"sum(rate({metric}{{{labels}}}{RATE}))"


def quantile(q):
    return f"histogram_quantile({q}, sum by (le) (rate(kova_request_duration_seconds_bucket{{{AGENT}}}{RATE})))"


def overview():
    d = Dashboard(
        "kova-overview",
        "Kova / Overview",
        "What is decided, how fast, from where, and what is missing.",
        of="kova_redis_shards",
        filters=(("policy", "kova_decisions_total"),),
    )
    d.add(
        stat(
            "Decisions a second",
            4,
            target(rate("kova_decisions_total", labels=POLICY)),
            "All outcomes, all policies that are chosen.",
        ),
        stat(
            "Refused",
            4,
            target(
                rate("kova_decisions_total", labels=POLICY + ',outcome="refused"')
                + " / "
                + rate("kova_decisions_total", labels=POLICY)
            ),
            "The part of the decisions that was no. What is normal here depends on the callers: a limit is there to refuse.",
            unit=PERCENT,
        ),
        stat(
            "99th percentile",
            4,
            target(quantile(0.99)),
            "From a whole request to its answer. Callers who asked to wait are in it.",
            unit=SECONDS,
        ),
        stat(
            "Parts in an outage",
            4,
            target(f"sum(kova_outage{{{AGENT}}})"),
            "Redis, another region's Redis, Kafka or durability, counted for each agent that can't reach it.",
            limits=((None, GOOD), (1, BAD)),
        ),
        stat("Callers who wait", 4, target(f"sum(kova_waiters{{{POLICY}}})"), "In the queues of all agents, now."),
        stat("Agents", 4, target(f"count(kova_build_info{{{AGENT}}})"), "That answer Prometheus."),
        row("Decisions"),
        series(
            "Decisions by outcome",
            12,
            target(rate("kova_decisions_total", "outcome", POLICY), "{{outcome}}"),
            "allowed and refused by the limit; outage: decided by on_outage, admitted or refused; shadow: would have been refused.",
            unit=EACH,
            stacked=True,
            colours={"allowed": GOOD, "refused": WARN, "outage": BAD, "shadow": "purple"},
        ),
        series(
            "Refusals by reason",
            12,
            target(rate("kova_refusals_total", "reason", POLICY), "{{reason}}"),
            "limited: no room. banned: an override. held: a Retry-After that was told. breaker_open: too many errors were told. "
            "queue_full and wait_timeout: callers who wanted to wait.",
            unit=EACH,
            stacked=True,
        ),
        series(
            "Most asked policies",
            12,
            target(f"topk(10, {rate('kova_decisions_total', 'policy', POLICY)})", "{{policy}}"),
            "The ten with the most decisions.",
            unit=EACH,
        ),
        series(
            "Most refused policies",
            12,
            target(f"topk(10, {rate('kova_refusals_total', 'policy', POLICY)})", "{{policy}}"),
            "The ten with the most refusals.",
            unit=EACH,
        ),
        row("Latency and waiting"),
        series(
            "Latency",
            12,
            [target(quantile(q), f"p{round(q * 100)}") for q in (0.5, 0.9, 0.99)],
            "Of all protocols. A decision from a lease takes microseconds, one by Redis a round trip.",
            unit=SECONDS,
        ),
        series(
            "99th percentile by protocol",
            12,
            target(
                f"histogram_quantile(0.99, sum by (le, protocol) (rate(kova_request_duration_seconds_bucket{{{AGENT}}}{RATE})))",
                "{{protocol}}",
            ),
            "Where one is slow and the others are not, look at its clients.",
            unit=SECONDS,
        ),
        series(
            "Callers who wait",
            12,
            target(f"sum by (policy) (kova_waiters{{{POLICY}}})", "{{policy}}"),
            "Near the policy's max_queue newcomers are refused with queue_full.",
        ),
        series(
            "What became of waiting",
            12,
            [
                target(rate("kova_waited_total", labels=POLICY), "admitted"),
                target(rate("kova_wait_timeouts_total", labels=POLICY), "timed out"),
                target(rate("kova_queue_full_total", labels=POLICY), "queue full"),
                target(rate("kova_abandoned_total", labels=POLICY), "hung up"),
            ],
            "Those who timed out or hung up took nothing.",
            unit=EACH,
            colours={"admitted": GOOD, "timed out": WARN, "queue full": BAD},
        ),
        row("Leases and Redis"),
        series(
            "Decided in memory",
            12,
            target(
                rate("kova_lease_decisions_total") + " / clamp_min(" + rate("kova_decisions_total") + ", 1e-9)",
                "from leases",
            ),
            "The part of all decisions that cost no call to Redis: from leased permits, and refusals that were remembered.",
            unit=PERCENT,
            ceiling=1,
        ),
        series(
            "Leases",
            12,
            [
                target(rate("kova_leases_total"), "granted"),
                target(rate("kova_leases_returned_total"), "partly returned"),
                target(f"sum(kova_lease_keys{{{AGENT}}})", "keys asked for often"),
            ],
            "Many leases of which something comes back: demand that jumps about.",
            unit=EACH,
        ),
        series(
            "Commands beside decisions",
            8,
            [target(rate("kova_redis_commands_total"), "commands"), target(rate("kova_decisions_total"), "decisions")],
            "Far fewer commands than decisions where requests come together.",
            unit=EACH,
        ),
        series(
            "Decisions in a call",
            8,
            target(
                rate("kova_script_operations_total") + " / clamp_min(" + rate("kova_script_calls_total") + ", 1e-9)",
                "operations a call",
            ),
            "How many operations one call of the script carries.",
        ),
        series(
            "Redis in trouble",
            8,
            [
                target(rate("kova_redis_timeouts_total"), "timeouts"),
                target(rate("kova_redis_disconnects_total"), "disconnects"),
                target(rate("kova_redis_redirects_total"), "redirects"),
                target(rate("kova_script_loads_total"), "script loads"),
            ],
            "Timeouts begin an outage of their shard. Redirects are a Cluster's whose slots move.",
            unit=EACH,
            colours={"timeouts": BAD},
        ),
        row("Outages and feedback"),
        states(
            "Outages",
            12,
            target(f"max by (instance, part) (kova_outage{{{AGENT}}})", "{{instance}} {{part}}"),
            "Red: this agent can't reach it, and each policy's on_outage decides.",
        ),
        series(
            "Shards of the store that can't be asked",
            12,
            target(
                f"sum by (instance) (kova_redis_shards{{{AGENT}}} - kova_redis_shards_up{{{AGENT}}})", "{{instance}}"
            ),
            "Of its own region's Redis.",
        ),
        series(
            "Feedback",
            12,
            target(rate("kova_feedback_total", "outcome", POLICY), "{{outcome}}"),
            "What callers told of their requests elsewhere.",
            unit=EACH,
            colours={"ok": GOOD, "error": BAD},
        ),
        series(
            "What feedback did",
            12,
            [
                target(rate("kova_feedback_holds_total", labels=POLICY), "held"),
                target(rate("kova_breaker_opened_total", labels=POLICY), "breaker opened"),
                target(rate("kova_breaker_closed_total", labels=POLICY), "breaker closed"),
                target(rate("kova_adaptive_raised_total", labels=POLICY), "limit raised"),
                target(rate("kova_adaptive_lowered_total", labels=POLICY), "limit lowered"),
            ],
            "Each counts keys.",
            unit=EACH,
        ),
        row("The processes"),
        series(
            "Processor",
            8,
            target(f"rate(process_cpu_seconds_total{{{AGENT}}}{RATE})", "{{instance}}"),
            "Cores. One loop fills one core: see threads.",
            unit=PERCENT,
        ),
        series(
            "Memory",
            8,
            target(f"process_resident_memory_bytes{{{AGENT}}}", "{{instance}}"),
            "Does not grow with the number of keys.",
            unit=BYTES,
        ),
        series(
            "Connections",
            8,
            [
                target(f"sum by (instance) (kova_connections{{{AGENT}}})", "{{instance}}"),
                target(rate("kova_connections_refused_total"), "refused a second"),
                target(rate("kova_connections_cut_total"), "cut a second"),
            ],
            "Clients now; those that were turned away or cut off.",
            unit=EACH,
        ),
    )
    return d


def world():
    d = Dashboard(
        "kova-world",
        "Kova / World",
        "Several regions: their shares of global limits, gossip, clocks, Kafka.",
        of="kova_redis_shards",
        filters=(),
    )
    d.add(
        stat(
            "Quotas without a grant",
            6,
            target(f"sum(kova_quotas_clipped{{{AGENT}}})"),
            "Asked for here, and on their floors: no grant is in force.",
            limits=((None, GOOD), (1, BAD)),
        ),
        stat(
            "Excess bound",
            6,
            target(f"max(kova_global_excess_bound_ratio{{{AGENT}}})"),
            "Loose limits: by at most so much the limit may be exceeded now. 0 when all regions are in touch.",
            unit=PERCENT,
            limits=((None, GOOD), (0.000001, WARN), (0.5, BAD)),
        ),
        stat(
            "Decided in the own region",
            6,
            target(f"min(kova_home_local_ratio{{{AGENT}}})"),
            "Since its start, of the agent that has the least: 95 % are usual for well-routed traffic.",
            unit=PERCENT,
            limits=((None, WARN), (0.9, GOOD)),
        ),
        stat(
            "Worst clock",
            6,
            target(f"max(abs(kova_clock_skew_seconds{{{AGENT}}}))"),
            "The furthest that any store's or node's clock is from an agent's. Beyond clock.max_skew (250 ms) refill is refused.",
            unit=SECONDS,
            limits=((None, GOOD), (0.1, WARN), (0.25, BAD)),
        ),
        row("Shares of global limits"),
        series(
            "Share in force",
            12,
            target(f"avg by (policy, region) (kova_global_share{{{AGENT}}})", "{{policy}} in {{region}}"),
            "The part of each global limit that a region may use: the mean over the roots in use.",
            unit=PERCENT,
            ceiling=1,
        ),
        series(
            "Demand",
            12,
            target(f"sum by (policy, region) (kova_quota_demand_ratio{{{AGENT}}})", "{{policy}} in {{region}}"),
            "What a region is asked for, as a part of the limit. More than its share is refused.",
            unit=PERCENT,
        ),
        series(
            "Roots by what they stand on",
            12,
            target(f"sum by (state) (kova_quota_roots{{{AGENT}}})", "{{state}}"),
            "granted: a grant. floor: the floor, no more is asked for. lent: idle, the floor is lent. clipped: more is asked for, no grant.",
            stacked=True,
            colours={"granted": GOOD, "floor": "blue", "lent": "purple", "clipped": BAD},
        ),
        series(
            "Excess bound",
            12,
            target(f"max by (policy) (kova_global_excess_bound_ratio{{{AGENT}}})", "{{policy}}"),
            "Loose limits only: strict ones are exceeded nowhere.",
            unit=PERCENT,
        ),
        series(
            "Grants that came",
            12,
            target(rate("kova_grants_total", "outcome"), "{{outcome}}"),
            "read: to this region and new. ignored: others'. malformed: somebody else writes to the topic.",
            unit=EACH,
            colours={"malformed": BAD},
        ),
        series(
            "Reports and grants in force",
            12,
            [
                target(rate("kova_share_reports_total"), "reports"),
                target(rate("kova_grants_applied_total"), "grants told to Redis"),
                target(f"sum(kova_quotas{{{AGENT}}})", "quotas that are reported"),
            ],
            "A region without reports gets no grants.",
            unit=EACH,
        ),
        row("Home regions"),
        series(
            "Decided in the own region",
            12,
            target(f"kova_home_local_ratio{{{AGENT}}}", "{{instance}}"),
            "Since the start: the part of the decisions that asked no other region.",
            unit=PERCENT,
            ceiling=1,
        ),
        series(
            "Decisions that asked another region",
            12,
            target(rate("kova_home_far_decisions_total", "instance"), "{{instance}}"),
            "Each pays the distance.",
            unit=EACH,
        ),
        row("Gossip and clocks"),
        series(
            "Members",
            8,
            target(f"max by (state) (kova_gossip_members{{{AGENT}}})", "{{state}}"),
            "As the agent sees it that counts most of each.",
            colours={"alive": GOOD, "suspect": WARN, "dead": BAD},
        ),
        series(
            "Refused by gossip",
            8,
            target(rate("kova_gossip_rejected_total", "reason"), "{{reason}}"),
            "hmac: another secret. clock_skew: an item from the future. name_in_use: two nodes of one name.",
            unit=EACH,
        ),
        series(
            "Items known",
            8,
            [
                target(f"kova_gossip_items{{{AGENT}}}", "{{instance}}"),
                target(rate("kova_gossip_not_kept_total"), "not kept a second"),
            ],
            "Policies, overrides, deletions. All agents should know equally many.",
        ),
        series(
            "Clock skew",
            12,
            target(f"kova_clock_skew_seconds{{{AGENT}}}", "{{instance}} to {{peer}}"),
            "A store's or node's clock minus the agent's.",
            unit=SECONDS,
        ),
        series(
            "Refills that were refused",
            12,
            [
                target(rate("kova_clock_skew_refusals_total", "instance"), "{{instance}}"),
                target(rate("kova_clock_leaps_total"), "clocks that were set"),
            ],
            "Calls in which nothing was refilled, because clocks differ by more than clock.max_skew.",
            unit=EACH,
        ),
        row("Kafka"),
        series(
            "Records",
            8,
            [
                target(rate("kova_kafka_records_total"), "delivered"),
                target(rate("kova_kafka_failures_total"), "failed, to be repeated"),
            ],
            "Usage, events, reports, pool numbers.",
            unit=EACH,
            colours={"delivered": GOOD},
        ),
        series(
            "Usage not published",
            8,
            target(f"kova_usage_unpublished{{{AGENT}}}", "{{instance}}"),
            "Counters whose present value is not known to be in Kafka. It grows while Kafka is away, to 65,536 at most.",
        ),
        series(
            "What is left out",
            8,
            [
                target(rate("kova_events_dropped_total"), "events dropped"),
                target(rate("kova_usage_overflows_total"), "usage counted as other"),
                target(rate("kova_usage_lost_total"), "usage lost"),
                target(rate("kova_quotas_overflows_total"), "quotas not reported"),
            ],
            "Should be at 0.",
            unit=EACH,
        ),
    )
    return d


def pools():
    d = Dashboard(
        "kova-pools",
        "Kova / Pools",
        "Pools of proxies and API keys: the five numbers, and what the endpoints do.",
        of="kova_pool_endpoints",
        filters=(("pool", "kova_pool_endpoints"),),
    )

    def most(metric, *by):
        return f"max by ({', '.join(('pool', *by))}) ({metric}{{{POOL}}})"

    d.add(
        states(
            "Paused",
            16,
            target(most("kova_pool_paused"), "{{pool}}"),
            "Red: the pool gives no endpoint. Its page (kovactl pool show) says why.",
        ),
        stat(
            "Fewest active",
            8,
            target(f"min by (pool) (kova_pool_active_min{{{POOL}}})", "{{pool}}"),
            "Active endpoints, the least since the last report.",
        ),
        row("The five numbers"),
        series(
            "Share of each endpoint",
            12,
            target(most("kova_pool_share_ratio", "endpoint"), "{{pool}} {{endpoint}}"),
            "Of the tickets since the last report. Pools up to 100 endpoints.",
            unit=PERCENT,
            stacked=True,
        ),
        series(
            "Cooldowns",
            12,
            target(f"max by (pool) (rate(kova_pool_cooldowns_total{{{POOL}}}{RATE}))", "{{pool}}"),
            "How often endpoints were taken out, a second.",
            unit=EACH,
        ),
        series(
            "Endpoints in cooldown, on average",
            8,
            target(f"max by (pool) (rate(kova_pool_cooldown_seconds_total{{{POOL}}}{RATE}))", "{{pool}}"),
            "Time in cooldown that passed in a second, over all endpoints.",
        ),
        series(
            "Escalation",
            8,
            target(most("kova_pool_escalation_ratio"), "{{pool}}"),
            "Tickets of a dearer tier, of all.",
            unit=PERCENT,
        ),
        series(
            "Success after a return",
            8,
            target(most("kova_pool_return_ok_ratio"), "{{pool}}"),
            "Of the first ten requests after each cooldown. Low: cooldowns are too short, or the endpoints are burnt. "
            "No line: none came back.",
            unit=PERCENT,
            ceiling=1,
        ),
        row("Endpoints"),
        series(
            "By state",
            12,
            target(most("kova_pool_endpoints", "state"), "{{pool}} {{state}}"),
            "active, cooldown, disabled.",
            stacked=True,
        ),
        series(
            "In flight",
            12,
            target(most("kova_pool_in_flight"), "{{pool}}"),
            "Tickets that were given and not reported yet.",
        ),
        row("What is told"),
        series(
            "Outcomes",
            12,
            target(rate("kova_pool_outcomes_total", "pool, outcome", POOL), "{{pool}} {{outcome}}"),
            "refused, auth, tunnel, timeout: the endpoint's fault. target: the target's. blocked, captcha, empty: judged.",
            unit=EACH,
            stacked=True,
        ),
        bars(
            "Outcomes in this time",
            12,
            target(f"sum by (outcome) (increase(kova_pool_outcomes_total{{{POOL}}}[$__range]))", "{{outcome}}"),
            "All pools that are chosen.",
        ),
        series(
            "Probes",
            12,
            target(rate("kova_pool_probes_total", "pool, result", POOL), "{{pool}} {{result}}"),
            "Of endpoints in cooldown. Only ok lets one return.",
            unit=EACH,
        ),
        series(
            "Hints left aside, probes put off",
            12,
            [
                target(rate("kova_pool_bad_hints_total", "pool", POOL), "{{pool}} bad hints"),
                target(rate("kova_pool_probes_put_off_total", "pool", POOL), "{{pool}} probes put off"),
            ],
            "Waits and resets that are no numbers; probes for which there was no room.",
            unit=EACH,
        ),
    )
    return d


def coordinator():
    d = Dashboard(
        "kova-coordinator",
        "Kova / Coordinator",
        "Usage that is added up, and grants of global limits.",
        of="kova_coordinator_partitions",
        filters=(),
    )

    def of(metric, each="{{instance}}"):
        return target(rate(metric, "instance"), each)

    d.add(
        stat(
            "Coordinators in their group",
            6,
            target(f'sum(1 - kova_outage{{{COORDINATOR},part="kafka"}})'),
            "One is enough; with two nobody waits for the next.",
            limits=((None, BAD), (1, GOOD)),
        ),
        stat(
            "Partitions owned",
            6,
            target(f"sum(kova_coordinator_partitions{{{COORDINATOR}}})"),
            "Should be all partitions of kova.usage.v1.",
        ),
        stat("Grants a second", 6, target(rate("kova_coordinator_grants_total")), "That were committed."),
        stat(
            "Greatest drift",
            6,
            target(f"max(abs(sum by (policy, region) (kova_drift_tokens{{{COORDINATOR}}})))"),
            "Tokens that a region's ledger and Kafka have counted differently.",
        ),
        row("Reading and committing"),
        series(
            "Records read",
            12,
            of("kova_coordinator_records_total"),
            "Of kova.usage.v1, repetitions included.",
            unit=EACH,
        ),
        series(
            "Transactions",
            12,
            [
                target(rate("kova_coordinator_transactions_total"), "committed"),
                target(rate("kova_coordinator_refused_total"), "refused"),
                target(rate("kova_coordinator_failures_total"), "begun again"),
            ],
            "Refused where the group changes; a lasting rate is a node whose name another one has, or brokers that are away.",
            unit=EACH,
            colours={"committed": GOOD, "refused": WARN, "begun again": BAD},
        ),
        series(
            "Left out",
            12,
            [
                target(rate("kova_coordinator_malformed_total"), "malformed"),
                target(rate("kova_coordinator_foreign_total"), "foreign"),
                target(rate("kova_coordinator_unshared_total"), "unshared"),
                target(rate("kova_coordinator_floors_differ_total"), "floors differ"),
                target(rate("kova_events_dropped_total"), "events dropped"),
            ],
            "unshared: reports of policies or regions that this coordinator does not have. floors differ: nothing is granted meanwhile.",
            unit=EACH,
        ),
        series(
            "Written",
            12,
            [
                target(rate("kova_coordinator_rows_total"), "rows"),
                target(rate("kova_coordinator_ledger_records_total"), "ledgers"),
            ],
            "Rows of kova.rollup.v1 by the one that publishes them; ledgers by each.",
            unit=EACH,
        ),
        row("What they own"),
        series(
            "Partitions",
            8,
            target(f"kova_coordinator_partitions{{{COORDINATOR}}}", "{{instance}}"),
            "The one with partition 0 publishes the rows.",
            stacked=True,
        ),
        series(
            "Keys and quotas",
            8,
            [
                target(f"sum(kova_coordinator_keys{{{COORDINATOR}}})", "keys"),
                target(f"sum(kova_coordinator_quotas{{{COORDINATOR}}})", "quotas"),
            ],
            "A key with three regions takes about 190 bytes.",
        ),
        series(
            "Last take-over",
            8,
            target(f"kova_coordinator_take_over_seconds{{{COORDINATOR}}}", "{{instance}}"),
            "Until it granted what another had.",
            unit=SECONDS,
        ),
        row("Grants"),
        series(
            "Reports and grants",
            12,
            [
                target(rate("kova_coordinator_reports_total"), "reports"),
                target(rate("kova_coordinator_grants_total"), "grants"),
            ],
            "Reports without any grant: regions or floors differ, or there is no demand.",
            unit=EACH,
            colours={"grants": GOOD},
        ),
        series(
            "What regions have",
            12,
            target(f"max by (policy, region) (kova_global_share{{{COORDINATOR}}})", "{{policy}} in {{region}}"),
            "In the limit's unit: the mean of the quotas in use.",
            stacked=True,
        ),
        series(
            "Excess bound",
            12,
            target(f"max by (policy) (kova_global_excess_bound_ratio{{{COORDINATOR}}})", "{{policy}}"),
            "Loose limits: the most by which any quota's limit may be exceeded now.",
            unit=PERCENT,
        ),
        series(
            "Gossip",
            12,
            [
                target(f"max by (state) (kova_gossip_members{{{COORDINATOR}}})", "{{state}}"),
                target(rate("kova_gossip_grants_total", "fate"), "grants {{fate}}"),
                target(rate("kova_gossip_rejected_total"), "refused"),
            ],
            "Members, and what becomes of grants that travel by gossip.",
            unit=EACH,
        ),
        row("Drift: Kafka beside Redis"),
        series(
            "Drift",
            12,
            target(f"sum by (policy, region) (kova_drift_tokens{{{COORDINATOR}}})", "{{policy}} in {{region}}"),
            "Above 0: an agent was killed before it had published. Below 0: Redis has lost what it had acknowledged.",
        ),
        series(
            "Roots compared",
            12,
            [
                target(f"sum by (region) (kova_drift_roots{{{COORDINATOR}}})", "{{region}}"),
                target(f"sum by (region) (kova_drift_roots_moving{{{COORDINATOR}}})", "{{region}} in use"),
            ],
            "Roots in use are not compared until they rest.",
        ),
        states(
            "Ledgers that could not be asked",
            12,
            target(f"1 - min by (region) (kova_drift_ledgers_seen{{{COORDINATOR}}})", "{{region}}"),
            "Red: this region's Redis was not reached in the last round.",
        ),
        series(
            "Rounds",
            12,
            [target(rate("kova_drift_rounds_total"), "rounds"), target(rate("kova_drift_overflows_total"), "no room")],
            "Through all ledgers.",
            unit=EACH,
        ),
        row("The processes"),
        series(
            "Clock skew",
            12,
            target(f"kova_clock_skew_seconds{{{COORDINATOR}}}", "{{instance}} to {{peer}}"),
            "With gossip: of other nodes.",
            unit=SECONDS,
        ),
        states(
            "Kafka",
            12,
            target(f'kova_outage{{{COORDINATOR},part="kafka"}}', "{{instance}}"),
            "Red: it is not in its group.",
        ),
    )
    return d


def main():
    directory = (
        sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "dashboards")
    )
    for dashboard in (overview(), world(), pools(), coordinator()):
        with open(os.path.join(directory, dashboard.uid + ".json"), "w", encoding="utf-8") as file:
            json.dump(dashboard.as_json(), file, indent=2)
            file.write("\n")


main()
