"""Differences that are known and meant: (suite, test) to the sentence that stands in docs/inside/compatibility.md."""

POLICIES = "`rabbitmqctl set_policy` speaks to RabbitMQ alone; policies are set by HTTP and commands of our own."
PERMISSIONS = "`rabbitmqctl set_permissions` speaks to RabbitMQ alone; tests/compat/test_access.py asks both brokers."
NOWHERE = "A message that reaches no queue waits at no gate, and its connection is not told that it is blocked."
LIMIT = "channel_max is 2,047 and cannot be set with `rabbitmqctl eval` while the broker runs."

ALARM = "A blocked connection is read, and its close answered; RabbitMQ reads nothing until the alarm is over."

STREAMS = "There are no streams: a declaration is refused with a sentence that names cursors."
LINKS = "Links of federation and shovels were not served when this suite ran last."
NODE = "The name of a node begins with penstock@, not with rabbit@."
KEYS = "A key of a policy that is not known is kept without effect, for plugins have keys of their own."
LAVIN = "x-alternate-exchange is LavinMQ's and refused here: messages without a route would be lost."
VHOST_LIMITS = "Limits of a virtual host are set at /vhost-limits by administrators, and not at /parameters."
IN_USE = "Deprecated features in use are not counted: the list is empty."

GO, FUNCTIONAL, SERVER = "amqp091-go", "java-functional", "java-server"
HOLE, ADMIN, CRATE = "rabbit-hole", "rabbitmqadmin", "rabbitmq_http_client"
_HOLE = {
    "Global parameters GET /api/global-parameters returns all global parameters":
        "RabbitMQ has a global parameter of its own: internal_cluster_id.",
}  # fmt: skip
_ADMIN = {
    LINKS: ("federation_link_tests::test_federation_link_starts_after_policy_enables_federation",
            "federation_link_tests::test_federation_link_stops_after_policy_disables_federation",
            "federation_link_tests::test_federation_link_stops_after_policy_removal",
            "federation_link_tests::test_federation_link_stops_after_upstream_removal",
            "queue_federation_tests::test_federation_list_all_links_with_queue_federation_settings",
            "shovel_tests::test_amqp091_shovel_declaration_and_deletion"),
    STREAMS: ("definitions_import_tests::test_import_vhost_definitions", "streams_tests::list_streams",
              "streams_tests::streams_list", "streams_tests::test_streams_delete_idempotently",
              "streams_tests::test_streams_list_with_columns", "streams_tests::test_streams_show"),
    NODE: ("nodes_tests::test_list_nodes",),
    KEYS: ("policies_tests::test_policy_validation_error",),
    "There is no feature flag khepri_db: the metadata store is not Khepri.":
        ("feature_flag_tests::test_list_feature_flags",),
}  # fmt: skip
_CRATE = {
    LINKS: ("dynamic_shovel_tests::declare_a_dynamic_amqp091_shovel", "dynamic_shovel_tests::list_all_shovels",
            "dynamic_shovel_tests::list_all_shovels_in_a_virtual_host"),
    STREAMS: ("health_checks_tests::health_check_protocol_listener_succeeds",
              "queue_tests::declare_a_stream_with_declare_queue",
              "stream_tests::declare_stream", "stream_tests::delete_stream"),
    NODE: ("node_tests::list_nodes",),
    LAVIN: ("definitions_tests::export_cluster_wide_definitions_as_data",
            "definitions_tests::export_vhost_definitions_as_data",
            *(f"exchange_tests::declare_a_durable_{kind}"
              for kind in ("custom_exchange_type", "direct_exchange", "fanout_exchange", "headers_exchange",
                           "local_random_exchange", "topic_exchange"))),
    VHOST_LIMITS: ("runtime_parameter_tests::clear_runtime_parameter",
                   "runtime_parameter_tests::list_all_runtime_parameters",
                   "runtime_parameter_tests::list_runtime_parameters_of_component_in_a_vhost",
                   "runtime_parameter_tests::upsert_runtime_parameter"),
    IN_USE: ("deprecated_feature_tests::list_deprecated_features_in_use",),
}  # fmt: skip
"""Tests that are there in two forms, blocking and async."""
_POLICIES = ("tTL", "tTLArgs", "expires", "expiresArgs", "maxLength", "maxLengthArgs", "alternateExchange",
             "alternateExchangeArgs", "deadLetterExchange", "deadLetterExchangeArgs")  # fmt: skip
_PERMISSIONS = ("passiveDeclaration", "publish", "binding", "get", "auth", "purge", "noAccess", "dLXConfiguration",
                "consume", "altExchConfiguration", "exchangeConfiguration", "queueConfiguration")  # fmt: skip


def _form(test: str, form: str) -> str:
    module, _, name = test.partition("::")
    return f"{form}_{module}::test_{form}_{name}"


EXPLAINED: dict[tuple[str, str], str] = {
    **{(HOLE, f"RabbitMQ HTTP API client {spec}"): why for spec, why in _HOLE.items()},
    **{(ADMIN, test): why for why, tests in _ADMIN.items() for test in tests},
    **{
        (CRATE, _form(test, form)): why
        for why, tests in _CRATE.items()
        for test in tests
        for form in ("blocking", "async")
    },
    (CRATE, "blocking_queue_tests::test_blocking_list_streams"): STREAMS,
    (CRATE, "blocking_policy_tests::test_blocking_policy_validation_error"): KEYS,
    **{(CRATE, f"{form}_queue_proptests::prop_{form}_stream_essential_ops"): STREAMS for form in ("blocking", "async")},
    (GO, "TestConnection_Close_WhenMemoryAlarmIsActive"): ALARM,
    (FUNCTIONAL, "QosTests.messageLimitPrefetchSizeFails"): "A prefetch in bytes is kept, not refused with 540.",
    (FUNCTIONAL, "UserIDHeader.impersonatedUserId"): "There is no tag impersonator.",
    (FUNCTIONAL, "ConnectionRecovery.blockedListenerRecovery"): NOWHERE,
    (SERVER, "BlockedConnection.testBlock"): NOWHERE,
    (SERVER, "BlockedConnection.initialBlock"): NOWHERE,
    (SERVER, "Firehose.firehose"): "amq.rabbitmq.trace gets nothing: there is no `rabbitmqctl trace_on`.",
    (SERVER, "TopicPermissions.topicPermissions"): PERMISSIONS,
    (SERVER, "ChannelLimitNegotiation.openingTooManyChannels"): LIMIT,
    (SERVER, "ChannelLimitNegotiation.channelMaxGreaterThanServerValue"): LIMIT,
    **{(FUNCTIONAL, f"Policies.{test}"): POLICIES for test in _POLICIES},
    **{(SERVER, f"Permissions.{test}"): PERMISSIONS for test in _PERMISSIONS},
}
