// JSON Schema in words: fields with their type, limits and meaning, objects inside them folded up.

import { node, phrase } from "./docs-nodes.js";

const MOST_VALUES = 10;
const DEEPEST = 6;

export class Fields {
  /** `nulls`: whether it is worth a word that a value can be null; in a request it stands for nothing. */
  constructor(schemas, nulls) {
    this.schemas = schemas;
    this.nulls = nulls;
  }

  /** The schema itself, where it only refers to one. */
  resolved(schema = {}) {
    const name = schema.$ref?.split("/").pop();
    return name ? { ...this.schemas[name], ...without(schema, "$ref") } : schema;
  }

  /** The rows of an object's fields; a list or a choice of objects gives those of what it holds. */
  list(schema, depth = 0) {
    const of = this.resolved(schema);
    if (of.properties) {
      const required = of.required ?? [];
      const rows = Object.entries(of.properties).map(([name, field]) =>
        this.row({ name, schema: field, required: required.includes(name) }, depth),
      );
      return node("dl", "fields", ...rows);
    }
    const options = (of.anyOf ?? of.oneOf ?? []).map((one) => this.resolved(one)).filter((one) => this.inner(one));
    if (options.length === 1) return this.list(options[0], depth);
    if (options.length > 1) {
      return node("div", "options", ...options.map((one) => node("div", "", this.title(one), this.list(one, depth))));
    }
    return of.items ? this.list(of.items, depth) : null;
  }

  /** One field or parameter. `where`: header, path or query. */
  row({ name, schema, required, description = "", where = "" }, depth = 0) {
    const of = this.resolved(schema);
    const head = node("dt", "", node("code", "name", name), where && node("span", "where", where));
    if (required) head.append(node("span", "required", "required"));
    const about = node("dd", "", node("span", "type", this.type(of)));
    const limits = this.limits(of);
    if (limits) about.append(node("span", "limits", limits));
    const text = description || of.description;
    if (text) about.append(node("p", "", phrase(text)));
    const values = this.values(of);
    if (values.length) about.append(choices(values));
    if (depth < DEEPEST && this.inner(of)) {
      const inside = this.list(of, depth + 1);
      const shown = node("details", "inside", node("summary", "", "Its fields"));
      shown.append(inside);
      about.append(shown);
    }
    return node("div", "field", head, about);
  }

  /** What kind of value it is, in words. */
  type(schema) {
    const of = this.resolved(schema);
    const options = of.anyOf ?? of.oneOf;
    if (options && !of.type) {
      const told = options.filter((one) => this.nulls || this.resolved(one).type !== "null");
      return [...new Set(told.map((one) => this.type(one)))].join(" or ");
    }
    if (of.type === "array") return `list of ${several(this.type(of.items ?? {}))}`;
    if (of.type === "string" && of.format === "binary") return "file";
    if (of.type === "object") return "object";
    if (of.type) return { string: "text", integer: "whole number", boolean: "true or false" }[of.type] ?? of.type;
    if (of.const !== undefined) return JSON.stringify(of.const);
    return of.enum ? "text" : "anything";
  }

  /** Ranges, lengths and the default, in words. */
  limits(of) {
    const schema = this.only(of);
    const found = [];
    const { minimum, maximum, minLength, maxLength, minItems, maxItems } = schema;
    if (minimum !== undefined || maximum !== undefined) found.push(range(minimum, maximum));
    if (maxLength !== undefined) found.push(`${minLength ? `${number(minLength)} to ` : "up to "}${number(maxLength)} characters`);
    if (maxItems !== undefined) found.push(`${minItems ? `${minItems} to ` : "up to "}${number(maxItems)} of them`);
    const fallback = of.default ?? schema.default;
    const shown = typeof fallback === "object" ? null : fallback;
    if (shown !== undefined && shown !== null && shown !== "") found.push(`default ${shown}`);
    return found.join(", ");
  }

  /** What it can be, when only certain values are taken. */
  values(of) {
    const among = [of, ...(of.anyOf ?? []), ...(of.items ? [of.items] : [])].flatMap((one) => {
      const schema = this.resolved(one);
      return schema.enum ?? this.resolved(schema.items ?? {}).enum ?? (schema.const !== undefined ? [schema.const] : []);
    });
    const told = among.map((one) => (typeof one === "object" && one !== null ? JSON.stringify(one) : one));
    return [...new Set(told)].filter((one) => one !== "");
  }

  /** All names of fields in a schema, for the search. */
  names(schema, depth = 0) {
    const of = this.resolved(schema);
    if (depth > DEEPEST) return [];
    const inside = [...(of.anyOf ?? []), ...(of.items ? [of.items] : []), ...Object.values(of.properties ?? {})];
    return [...Object.keys(of.properties ?? {}), ...inside.flatMap((one) => this.names(one, depth + 1))];
  }

  /** The one option beside null, where there is one. */
  only(of) {
    const options = (of.anyOf ?? []).map((one) => this.resolved(one)).filter((one) => one.type !== "null");
    return options.length === 1 ? options[0] : of;
  }

  inner(schema) {
    const of = this.resolved(schema);
    if (of.properties) return true;
    return [...(of.anyOf ?? []), ...(of.items ? [of.items] : [])].some((one) => this.inner(one));
  }

  title(of) {
    const about = of.description ?? of.title;
    return about ? node("p", "option", phrase(about)) : null;
  }
}

function several(kind) {
  return /^(text|file|object|number|whole number)$/.test(kind) ? `${kind}s` : kind;
}

function choices(values) {
  const shown = values.slice(0, MOST_VALUES).map((one) => node("code", "", String(one)));
  const list = node("p", "values", ...shown);
  if (values.length > MOST_VALUES) {
    const more = node("button", "more", `${values.length - MOST_VALUES} more`);
    more.type = "button";
    more.addEventListener("click", () => more.replaceWith(...values.slice(MOST_VALUES).map((one) => node("code", "", String(one)))));
    list.append(more);
  }
  return list;
}

function range(least, most) {
  if (most === undefined) return `from ${number(least)} on`;
  return least === undefined ? `up to ${number(most)}` : `${number(least)} to ${number(most)}`;
}

function number(value) {
  return value.toLocaleString("en", { maximumFractionDigits: 3 });
}

function without(object, name) {
  const { [name]: _, ...rest } = object;
  return rest;
}
