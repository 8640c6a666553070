"""Types of keywords: `connect`, `publisher`, `receiver` and `declare_queue`, for type checkers and editors.

scripts/option_types.py writes this file from the tables of options and settings. Nothing imports it at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from ssl import SSLContext
from typing import Literal, TypedDict

SettingOfQueue = str | int | float | bool | None
"""Value of a setting of a queue: a number, a text with a unit such as "64MiB", or "none"."""


class PublisherOptions(TypedDict, total=False):
    """Options of one publisher."""

    name: str
    window: int | str
    max_unconfirmed: int | str
    producer_window_size: int | str
    producerWindowSize: int | str
    window_bytes: int | str
    producer_max_rate: int | str
    producerMaxRate: int | str
    max_send_rate: int | str
    flow_control_wait_failure: float | str
    send_timeout: float | str
    flow_control_wait_notify_period: float | str
    notify_period: float | str
    durable: bool | str
    replay: Literal["again", "unknown"]
    mandatory: bool | str


class ReceiverOptions(TypedDict, total=False):
    """Options of one receiver."""

    name: str
    consumer_window_size: int | str
    consumerWindowSize: int | str
    prefetch: int | str
    consumer_max_rate: int | str
    consumerMaxRate: int | str
    max_receive_rate: int | str
    selector: str
    mode: Literal["take", "browse"]
    exclusive: bool | str


class ConnectionOptions(TypedDict, total=False):
    """Options of a connection, with the defaults of its publishers and receivers."""

    user: str
    password: str
    virtual_host: str
    product: str
    query: str
    tls: SSLContext | None
    token: Callable[[], str] | str | None
    window: int | str | None
    max_unconfirmed: int | str | None
    producer_window_size: int | str | None
    producerWindowSize: int | str | None
    window_bytes: int | str | None
    producer_max_rate: int | str | None
    producerMaxRate: int | str | None
    max_send_rate: int | str | None
    flow_control_wait_failure: float | str | None
    send_timeout: float | str | None
    flow_control_wait_notify_period: float | str | None
    notify_period: float | str | None
    durable: bool | str | None
    replay: Literal["again", "unknown"] | None
    mandatory: bool | str | None
    consumer_window_size: int | str | None
    consumerWindowSize: int | str | None
    prefetch: int | str | None
    consumer_max_rate: int | str | None
    consumerMaxRate: int | str | None
    max_receive_rate: int | str | None
    selector: str | None
    mode: Literal["take", "browse"] | None
    exclusive: bool | str | None
    heartbeat: float | str | None
    connect_timeout: float | str | None
    timeout: float | str | None
    reconnect: bool | str | None
    reconnect_delay: float | str | None
    reconnect_delay_max: float | str | None
    reconnect_attempts: int | str | None
    protocol: Literal["auto", "amqp091", "amqp10"] | None
    mechanism: Literal["PLAIN", "EXTERNAL", "SCRAM-SHA-256"] | None
    name: str | None
    connection_name: str | None
    container_id: str | None


class QueueSettings(TypedDict, total=False):
    """Settings of a queue at its declaration, by our names and those of other brokers."""

    capacity_messages: SettingOfQueue
    capacity_bytes: SettingOfQueue
    stop_messages: SettingOfQueue
    stop_bytes: SettingOfQueue
    resume_messages: SettingOfQueue
    resume_bytes: SettingOfQueue
    stop_percent: SettingOfQueue
    resume_percent: SettingOfQueue
    max_length: SettingOfQueue
    max_length_bytes: SettingOfQueue
    max_age: SettingOfQueue
    stream_max_segment_size_bytes: SettingOfQueue
    retain_time: SettingOfQueue
    retain_bytes: SettingOfQueue
    overflow: SettingOfQueue
    page_limit_messages: SettingOfQueue
    page_limit_bytes: SettingOfQueue
    page_full_policy: SettingOfQueue
    hold_deadline: SettingOfQueue
    message_ttl: SettingOfQueue
    expires: SettingOfQueue
    delivery_limit: SettingOfQueue
    retry_delay: SettingOfQueue
    retry_delay_max: SettingOfQueue
    dead_letter_exchange: SettingOfQueue
    dead_letter_routing_key: SettingOfQueue
    dead_letter_strategy: SettingOfQueue
    group_by: SettingOfQueue
    consumer_timeout: SettingOfQueue
    consumer_window_bytes: SettingOfQueue
    consumer_window_adaptive: SettingOfQueue
    consumer_window_min: SettingOfQueue
    consumer_window_max: SettingOfQueue
    consumer_max_rate: SettingOfQueue
    slow_consumer_rate: SettingOfQueue
    slow_consumer_period: SettingOfQueue
    slow_consumer_policy: SettingOfQueue
    cursor_max_lag_messages: SettingOfQueue
    cursor_max_lag_bytes: SettingOfQueue
    cursor_max_lag_age: SettingOfQueue
    cursor_max_lag_policy: SettingOfQueue
    cursor_expires: SettingOfQueue
    credit_window_messages: SettingOfQueue
    credit_window_bytes: SettingOfQueue
    credit_idle: SettingOfQueue
    auto_create: SettingOfQueue
    alarm_gate_closed: SettingOfQueue
    alarm_oldest: SettingOfQueue
    maximumQueueDepthMessages: SettingOfQueue
    x_qpid_maximum_queue_depth_messages: SettingOfQueue
    max_size_messages: SettingOfQueue
    maximumQueueDepthBytes: SettingOfQueue
    x_qpid_maximum_queue_depth_bytes: SettingOfQueue
    x_qpid_capacity: SettingOfQueue
    capacity: SettingOfQueue
    max_size_bytes: SettingOfQueue
    x_qpid_flow_resume_capacity: SettingOfQueue
    flowResumeCapacity: SettingOfQueue
    default_flow_stop_threshold: SettingOfQueue
    default_flow_resume_threshold: SettingOfQueue
    overflowPolicy: SettingOfQueue
    x_qpid_overflow_policy: SettingOfQueue
    address_full_policy: SettingOfQueue
    messageGroupKeyOverride: SettingOfQueue
    default_consumer_window_size: SettingOfQueue
    consumerWindowSize: SettingOfQueue
    consumerMaxRate: SettingOfQueue
    slow_consumer_threshold: SettingOfQueue
    slow_consumer_check_period: SettingOfQueue
    amqpCredits: SettingOfQueue
    producerWindowSize: SettingOfQueue
    auto_create_queues: SettingOfQueue
    x_capacity_messages: SettingOfQueue
    x_capacity_bytes: SettingOfQueue
    x_stop_messages: SettingOfQueue
    x_stop_bytes: SettingOfQueue
    x_resume_messages: SettingOfQueue
    x_resume_bytes: SettingOfQueue
    x_stop_percent: SettingOfQueue
    x_resume_percent: SettingOfQueue
    x_max_length: SettingOfQueue
    x_max_length_bytes: SettingOfQueue
    x_max_age: SettingOfQueue
    x_stream_max_segment_size_bytes: SettingOfQueue
    x_retain_time: SettingOfQueue
    x_retain_bytes: SettingOfQueue
    x_overflow: SettingOfQueue
    x_page_limit_messages: SettingOfQueue
    x_page_limit_bytes: SettingOfQueue
    x_page_full_policy: SettingOfQueue
    x_hold_deadline: SettingOfQueue
    x_message_ttl: SettingOfQueue
    x_expires: SettingOfQueue
    x_delivery_limit: SettingOfQueue
    x_retry_delay: SettingOfQueue
    x_retry_delay_max: SettingOfQueue
    x_dead_letter_exchange: SettingOfQueue
    x_dead_letter_routing_key: SettingOfQueue
    x_dead_letter_strategy: SettingOfQueue
    x_group_by: SettingOfQueue
    x_consumer_timeout: SettingOfQueue
    x_consumer_window_bytes: SettingOfQueue
    x_consumer_window_adaptive: SettingOfQueue
    x_consumer_window_min: SettingOfQueue
    x_consumer_window_max: SettingOfQueue
    x_consumer_max_rate: SettingOfQueue
    x_slow_consumer_rate: SettingOfQueue
    x_slow_consumer_period: SettingOfQueue
    x_slow_consumer_policy: SettingOfQueue
    x_cursor_max_lag_messages: SettingOfQueue
    x_cursor_max_lag_bytes: SettingOfQueue
    x_cursor_max_lag_age: SettingOfQueue
    x_cursor_max_lag_policy: SettingOfQueue
    x_cursor_expires: SettingOfQueue
    x_credit_window_messages: SettingOfQueue
    x_credit_window_bytes: SettingOfQueue
    x_credit_idle: SettingOfQueue
    x_auto_create: SettingOfQueue
    x_alarm_gate_closed: SettingOfQueue
    x_alarm_oldest: SettingOfQueue
    x_max_priority: SettingOfQueue
    x_queue_type: SettingOfQueue
    x_single_active_consumer: SettingOfQueue
