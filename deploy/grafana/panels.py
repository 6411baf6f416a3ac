"""Panels of Grafana dashboards, laid out from left to right in a grid of 24 columns."""

PERCENT, SECONDS, BYTES, EACH, NUMBER = "percentunit", "s", "bytes", "cps", "short"
GOOD, WARN, BAD = "green", "orange", "red"
SCHEMA_VERSION = 41
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
HEIGHTS = {"row": 1, "stat": 4}
HEIGHT = 8


def target(expression, legend=""):
    return {
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": expression,
        "legendFormat": legend or "__auto",
        "range": True,
    }


def _panel(kind, title, width, targets, description, unit, **more):
    targets = targets if isinstance(targets, list) else [targets]
    named = [{**one, "refId": chr(ord("A") + i)} for i, one in enumerate(targets)]
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": SOURCE,
        "targets": named,
        "gridPos": {"w": width, "h": HEIGHTS.get(kind, HEIGHT)},
        "fieldConfig": {
            "defaults": {"unit": unit, "min": 0 if unit != SECONDS else None, **more.pop("defaults", {})},
            "overrides": more.pop("overrides", []),
        },
        **more,
    }


def _thresholds(limits):
    return {"mode": "absolute", "steps": [{"value": value, "color": colour} for value, colour in limits]}


def row(title):
    return {"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": {"w": 24, "h": 1}}


def stat(title, width, targets, description, unit=NUMBER, limits=((None, "blue"),)):
    return _panel(
        "stat",
        title,
        width,
        targets,
        description,
        unit,
        defaults={"thresholds": _thresholds(limits), "color": {"mode": "thresholds"}, "noValue": "none"},
        options={
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "area",
            "textMode": "auto",
            "justifyMode": "auto",
        },
    )


def series(title, width, targets, description, unit=NUMBER, stacked=False, ceiling=None, colours=None):
    colour = [
        {
            "matcher": {"id": "byName", "options": name},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": value}}],
        }
        for name, value in (colours or {}).items()
    ]
    drawn = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 40 if stacked else 8,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }
    return _panel(
        "timeseries",
        title,
        width,
        targets,
        description,
        unit,
        overrides=colour,
        defaults={
            "custom": drawn,
            "color": {"mode": "palette-classic"},
            **({} if ceiling is None else {"max": ceiling}),
        },
        options={
            "legend": {
                "displayMode": "table",
                "placement": "right" if width >= 12 else "bottom",
                "showLegend": True,
                "calcs": ["lastNotNull", "max"],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    )


def states(title, width, targets, description):
    shown = [
        {
            "type": "value",
            "options": {
                "0": {"text": "good", "color": GOOD, "index": 0},
                "1": {"text": "bad", "color": BAD, "index": 1},
            },
        }
    ]
    return _panel(
        "state-timeline",
        title,
        width,
        targets,
        description,
        "none",
        defaults={
            "mappings": shown,
            "thresholds": _thresholds(((None, GOOD), (1, BAD))),
            "color": {"mode": "thresholds"},
            "custom": {"lineWidth": 0, "fillOpacity": 80},
        },
        options={
            "mergeValues": True,
            "showValue": "never",
            "rowHeight": 0.8,
            "alignValue": "left",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "single", "sort": "none"},
        },
    )


def bars(title, width, targets, description, unit=NUMBER):
    return _panel(
        "bargauge",
        title,
        width,
        targets,
        description,
        unit,
        defaults={"thresholds": _thresholds(((None, "blue"),)), "color": {"mode": "thresholds"}},
        options={
            "orientation": "horizontal",
            "displayMode": "basic",
            "showUnfilled": True,
            "valueMode": "text",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
    )


def _choice(name, query, label):
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"{name}-choice"},
        "refresh": 2,
        "sort": 1,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "options": [],
        "regex": "",
        "hide": 0,
    }


class Dashboard:
    """`of`: a metric that only the programs shown have; `filters`: (label, metric that has it) to choose by."""

    def __init__(self, uid, title, description, of, filters):
        self.uid, self.title, self.description, self.panels = uid, title, description, []
        self.variables = [
            {
                "type": "datasource",
                "name": "datasource",
                "label": "Prometheus",
                "query": "prometheus",
                "current": {},
                "options": [],
                "regex": "",
                "refresh": 1,
                "hide": 0,
                "includeAll": False,
                "multi": False,
            },
            _choice("job", f"label_values({of}, job)", "Job"),
            _choice("instance", f'label_values({of}{{job=~"$job"}}, instance)', "Instance"),
        ]
        self.variables += [
            _choice(label, f'label_values({metric}{{job=~"$job"}}, {label})', label.capitalize())
            for label, metric in filters
        ]

    def add(self, *panels):
        x = y = height = 0
        for number, panel in enumerate(panels, 1):
            place = panel["gridPos"]
            if x + place["w"] > 24:
                x, y, height = 0, y + height, 0
            height = max(height, place["h"])
            self.panels.append({"id": number, **panel, "gridPos": {"x": x, "y": y, **place}})
            x += place["w"]

    def as_json(self):
        others = {
            "type": "dashboards",
            "title": "Kova",
            "tags": ["kova"],
            "asDropdown": True,
            "includeVars": False,
            "keepTime": True,
            "targetBlank": False,
            "icon": "external link",
            "tooltip": "",
            "url": "",
        }
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["kova"],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "timezone": "browser",
            "liveNow": False,
            "time": {"from": "now-1h", "to": "now"},
            "timepicker": {},
            "links": [others],
            "annotations": {"list": []},
            "templating": {"list": self.variables},
            "panels": self.panels,
        }
