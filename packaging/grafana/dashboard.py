"""Prints vmnoise.json, the dashboard of `vmnoise serve`, with Grafana's own SDK (version in xtask/python)."""

import json

from grafana_foundation_sdk.builders import dashboard, prometheus, table, timeseries
from grafana_foundation_sdk.builders.common import StackingConfig
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import StackingMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef, DataTransformerConfig, VariableOption
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = DataSourceRef(type_val="prometheus", uid="${DS_PROMETHEUS}")
# Grafana asks for it when the dashboard is imported.
INPUT = {
    "name": "DS_PROMETHEUS",
    "label": "Prometheus",
    "description": "The Prometheus that scrapes vmnoise serve",
    "type": "datasource",
    "pluginId": "prometheus",
    "pluginName": "Prometheus",
}
VMS = 'instance=~"$instance",vm=~"$vm"'
MATRIX = {"rowField": "who", "columnField": "vm", "valueField": "Value", "emptyValue": "null"}
HOSTS = 'instance=~"$instance"'
WAITS = f"sum by (instance, vm) (rate(vmnoise_vcpu_wait_seconds{{{VMS}}}[$__rate_interval]))"


def query(expression, legend):
    return prometheus.Dataquery().expr(expression).legend_format(legend).datasource(SOURCE)


def chart(title, description, unit, *queries):
    panel = timeseries.Panel().title(title).description(description).unit(unit).datasource(SOURCE)
    panel = panel.min(0).height(8).span(12)
    for number, each in enumerate(queries):
        panel = panel.with_target(each.ref_id(chr(ord("A") + number)))
    return panel


def lost():
    rate = f"sum by (instance, vm, share) (rate(vmnoise_vcpu_lost_seconds_total{{{VMS}}}[$__rate_interval]))"
    part = f"{rate} / on (instance, vm) group_left () vmnoise_vcpus{{{VMS}}}"
    return chart(
        "Lost part of the vCPUs' time",
        "Guests notice losses of 5 % and more. docs/serve.md explains the shares and what to do.",
        "percentunit",
        query(part, "{{vm}} {{share}}"),
    ).stacking(StackingConfig().mode(StackingMode.NORMAL))


def culprits():
    took = f"sum by (vm, kind, culprit) (increase(vmnoise_vcpu_culprit_seconds_total{{{VMS}}}[$__range]))"
    named = f'label_join(topk(50, {took} > 0), "who", " ", "kind", "culprit")'
    return (
        table.Panel()
        .title("Culprits")
        .description("Seconds in the selected time. Rows are culprits, columns are the VMs that waited for them.")
        .datasource(SOURCE)
        .unit("s")
        .height(8)
        .span(12)
        .with_target(query(named, "").instant().format(PromQueryFormat.TABLE).ref_id("A"))
        .with_transformation(DataTransformerConfig(id_val="groupingToMatrix", options=MATRIX))
    )


def waits():
    quantile = lambda of: f"histogram_quantile({of}, {WAITS})"
    return chart(
        "Single waits",
        "From native histograms, which Prometheus must be set up to scrape (docs/serve.md).",
        "s",
        query(quantile(0.99), "{{vm}} p99"),
        query(quantile(0.999), "{{vm}} p99.9"),
    )


def waiting():
    return chart(
        "Waiting now",
        "Current wait of the vCPU that waits longest.",
        "s",
        query(f"vmnoise_vcpu_waiting_seconds{{{VMS}}}", "{{vm}}"),
    )


def cost():
    rate = lambda name: f"rate({name}{{{HOSTS}}}[$__rate_interval])"
    return chart(
        "Cost of vmnoise serve",
        "Part of one CPU: its own process, and its BPF programs on all CPUs.",
        "percentunit",
        query(rate("vmnoise_self_cpu_seconds_total"), "{{instance}} process"),
        query(rate("vmnoise_probe_seconds_total"), "{{instance}} BPF"),
    )


def unseen():
    return chart(
        "Missed",
        "If this is above 0, figures are too low.",
        "short",
        query(f"increase(vmnoise_events_missed_total{{{HOSTS}}}[$__rate_interval])", "{{instance}} events"),
        query(f"vmnoise_vcpus_without_room{{{HOSTS}}}", "{{instance}} vCPUs"),
    )


def variable(name, label, of):
    chosen = dashboard.QueryVariable(name).label(label).datasource(SOURCE)
    chosen = chosen.query(f"label_values(vmnoise_vcpus{of}, {name})")
    everything = VariableOption(selected=True, text="All", value="$__all")
    return chosen.multi(True).include_all(True).current(everything)


def main():
    built = (
        dashboard.Dashboard("vmnoise: who takes time from VMs")
        .uid("vmnoise")
        .tags(["vmnoise"])
        .time("now-1h", "now")
        .refresh("30s")
        .with_variable(variable("instance", "Host", ""))
        .with_variable(variable("vm", "VM", '{instance=~"$instance"}'))
    )
    for panel in [lost(), culprits(), waits(), waiting(), cost(), unseen()]:
        built = built.with_panel(panel)
    encoded = json.loads(JSONEncoder(sort_keys=True).encode(built.build()))
    print(json.dumps({"__inputs": [INPUT], **encoded}, indent=2))


main()
