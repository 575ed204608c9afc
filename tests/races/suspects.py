"""The tests that depend most on when things happen, by what makes them suspicious; each as `file::function`."""

from __future__ import annotations

from typing import Final

UNIT: Final = "tests/unit/"
PROPERTY: Final = "tests/property/"
PROTOCOL: Final = "tests/protocol/"
INTEGRATION: Final = "tests/integration/"

SUSPECTS: Final = (
    # lines of logs and counters of a gateway that tests share
    INTEGRATION + "nodes/test_stolen_links.py::test_clients_of_one_library_do_not_take_each_others_links",
    INTEGRATION + "server/test_security.py::test_a_wrong_password_and_an_unknown_user_look_alike",
    INTEGRATION + "server/test_security.py::test_failed_tls_handshakes_are_counted",
    INTEGRATION + "server/reload/test_policy.py::test_a_wrong_file_keeps_the_old_policy_and_is_reported",
    INTEGRATION + "server/reload/test_policy.py::test_a_changed_file_is_noticed",
    INTEGRATION + "observability/test_metrics.py::test_every_count_of_a_known_run",
    INTEGRATION + "routing/test_limits.py::test_opens_per_second",
    INTEGRATION + "routing/test_limits.py::test_handshake_time_of_tls",
    PROTOCOL + "gateway/amqp/transport/test_bad_headers.py::test_nothing_that_a_peer_said_out_of_place_is_repeated",
    # time is the feature: rates, spacing, idle time-outs, drains
    INTEGRATION + "routing/test_response_rate.py::test_what_comes_faster_waits_and_arrives_in_order",
    INTEGRATION + "routing/test_response_rate.py::test_links_of_one_user_share_the_rate",
    INTEGRATION + "server/test_drain.py::test_an_idle_gateway_ends_at_once",
    INTEGRATION + "server/test_drain.py::test_it_waits_no_longer_than_the_policy_says",
    INTEGRATION + "server/test_drain.py::test_a_busy_consumer_does_not_keep_it",
    INTEGRATION + "connectors/test_remote_peer.py::test_a_broker_that_vanishes",
    PROTOCOL + "gateway/amqp/engine/test_connections.py::test_a_peer_with_a_short_idle_time_out_gets_heartbeats",
    PROTOCOL + "gateway/amqp/engine/test_connections.py::test_a_peer_that_sends_empty_frames_stays",
    PROTOCOL + "bridges/kafka/test_info_spacing.py::test_five_credits_are_spaced_and_say_what_changed",
    PROTOCOL + "gateway/amqp/transport/test_fairness.py::test_others_go_on_while_one_floods",
    UNIT + "gateway/observability/test_http.py::test_half_a_request_is_not_waited_for",
    # resident memory
    INTEGRATION + "held/test_budget.py::test_unfinished_messages_are_bounded",
    INTEGRATION + "held/test_budget.py::test_a_receiver_that_does_not_read_stops_its_senders",
    PROTOCOL + "gateway/amqp/link/test_transfers.py::test_what_a_peer_goes_on_sending_on_an_ended_link_is_dropped",
    PROTOCOL + "gateway/amqp/link/test_transfers.py::test_64_mebibytes_pass_equal_and_the_memory_comes_back",
    # processor time
    UNIT + "gateway/cli/test_cli.py::test_version_in_a_process_of_its_own_is_quick_and_imports_little",
    UNIT + "gateway/filters/test_index.py::test_a_message_costs_the_same_however_many_filters_there_are",
    UNIT + "gateway/filters/test_like.py::test_no_message_keeps_the_gateway_busy_for_long",
    UNIT + "gateway/amqp/sasl/test_user_file.py"
    "::test_a_thousand_users_are_read_many_times_as_fast_as_by_the_general_parser",
    PROPERTY + "gateway/response/test_forgery.py::test_the_time_does_not_tell_which_byte_of_the_mac_is_wrong",
    PROPERTY + "bridges/kafka/consume/test_record_filters.py::test_a_link_comes_and_goes_at_its_own_cost",
)
