// Shows openapi.json: every route with its options, bodies, responses and a call to copy.

const api = await (await fetch("openapi.json")).json();

const LONGEST = 4000; // characters of a response that are shown

function make(name, about = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(about)) node.setAttribute(key, value);
  node.append(...children.filter((child) => child != null));
  return node;
}

const resolve = (schema) => (schema?.$ref ? api.components.schemas[schema.$ref.split("/").at(-1)] : schema ?? {});

// The name of a type: "[[number]]", "integer | string | null".
function typeName(schema) {
  if (schema?.$ref) {
    const name = schema.$ref.split("/").at(-1);
    return name === "JsonValue" ? "any" : name;
  }
  if (schema?.anyOf) return [...new Set(schema.anyOf.map(typeName))].join(" | ");
  if (schema?.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (schema?.type === "array") return `[${typeName(schema.items)}]`;
  if (Array.isArray(schema?.type)) return schema.type.join(" | ");
  return schema?.type ?? "any";
}

function limits(schema) {
  const parts = [];
  if (schema?.minimum != null) parts.push(`from ${schema.minimum}`);
  if (schema?.maximum != null) parts.push(`to ${schema.maximum}`);
  if (schema?.default != null && schema.default !== false) parts.push(`default ${JSON.stringify(schema.default)}`);
  return parts.join(", ");
}

const table = (rows) => make("table", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell)))));

function fields(schema) {
  const found = resolve(schema);
  const required = new Set(found.required);
  return table(Object.entries(found.properties ?? {}).map(([name, each]) => [
    make("code", {}, required.has(name) ? `${name} *` : name), make("code", {}, typeName(each)),
    [each.description, limits(each)].filter(Boolean).join(" "),
  ]));
}

// An example value for a schema, small enough to read.
function example(schema, name = "") {
  const found = resolve(schema);
  if (name === "vectors") return [[0.1, 0.2]];
  if (name === "keys") return ["a"];
  if (found.default != null) return found.default;
  if (found.type === "object" || found.properties) {
    const wanted = found.required ?? found.oneOf?.[0]?.required ?? [];
    return Object.fromEntries(wanted.map((each) => [each, example(found.properties[each], each)]));
  }
  return found.type === "array" ? [] : found.type === "integer" ? 1 : "text";
}

function call(method, path, operation) {
  const url = new URL(path.slice(1).replace("{key}", "17").replace("{version}", "current"), document.baseURI).href;
  const how = { get: [], head: ["-I"] }[method] ?? ["-X", method.toUpperCase()];
  const parts = ["curl", ...how, url];
  if (operation.security) parts.push(`-H "Authorization: Bearer $MIHASH_TOKEN"`);
  const body = operation.requestBody?.content?.["application/json"];
  if (body) parts.push("-H 'Content-Type: application/json'", `-d '${JSON.stringify(example(body.schema))}'`);
  return parts.join(" ");
}

// A form that sends the request from here; the token is the one that the dashboard asked for.
function trial(method, path, operation) {
  if (path.endsWith("/events")) return null; // it never ends
  const id = (name) => `${operation.operationId}-${name}`;
  const field = (name, value, kind = "input") => {
    const made = make(kind, { id: id(name), spellcheck: "false" });
    made.value = value;
    return made;
  };
  const where = field("path", path.slice(1).replace("{key}", "17").replace("{version}", "current"));
  const json = operation.requestBody?.content?.["application/json"];
  const body = json ? field("body", JSON.stringify(example(json.schema)), "textarea") : null;
  const answer = make("pre", { tabindex: "0", hidden: "" });
  answer.setAttribute("role", "status");
  const form = make("form", {},
    make("label", { for: where.id }, "Path and query string"), where,
    body ? make("label", { for: body.id }, "Body") : null, body,
    make("button", {}, method === "get" || method === "head" ? "Send" : "Send, which may change the index"), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const token = sessionStorage.getItem("mihash-token");
    const headers = { ...(body ? { "Content-Type": "application/json" } : {}), ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    answer.hidden = false;
    try {
      const response = await fetch(new URL(where.value, document.baseURI), { method: method.toUpperCase(), headers, body: body?.value });
      const text = await response.text();
      answer.textContent = `${response.status} ${response.statusText}\n${text.length > LONGEST ? text.slice(0, LONGEST) + "\u2026" : text}`;
    } catch {
      answer.textContent = "The service did not answer.";
    }
  });
  return make("details", {}, make("summary", {}, "Try it"), form);
}

function responses(operation) {
  return table(Object.entries(operation.responses).map(([status, about]) => {
    const content = Object.entries(about.content ?? {})[0];
    const what = content ? (content[1].schema?.$ref ? typeName(content[1].schema) : content[0]) : "";
    return [make("code", {}, status), make("code", {}, what), about.description];
  }));
}

function shown(method, path, operation) {
  const body = operation.requestBody?.content;
  const parameters = (operation.parameters ?? []).filter((each) => each.in !== "cookie");
  const good = Object.entries(operation.responses).find(([status]) => status < 300)?.[1].content?.["application/json"];
  return make("article", { id: operation.operationId },
    make("h3", {}, make("span", { class: "method" }, method.toUpperCase()), make("code", {}, path)),
    make("p", {}, operation.description ?? operation.summary ?? ""),
    parameters.length ? make("h4", {}, "Query string, path and headers") : null,
    parameters.length ? table(parameters.map((each) => [
      make("code", {}, each.required ? `${each.name} *` : each.name), make("code", {}, typeName(each.schema)),
      [each.description ?? each.schema?.description, limits(each.schema)].filter(Boolean).join(" "),
    ])) : null,
    body ? make("h4", {}, `Body: ${Object.keys(body).join(", ")}`) : null,
    body?.["application/json"] ? fields(body["application/json"].schema) : null,
    make("h4", {}, "Call"), make("pre", { tabindex: "0" }, make("code", {}, call(method, path, operation))),
    trial(method, path, operation),
    good?.schema?.$ref ? make("details", {}, make("summary", {}, `Response: ${typeName(good.schema)}`), fields(good.schema)) : null,
    make("details", {}, make("summary", {}, "All responses"), responses(operation)));
}

const groups = new Map();
for (const [path, operations] of Object.entries(api.paths)) {
  for (const [method, operation] of Object.entries(operations)) {
    const group = operation.tags?.[0] ?? "others";
    groups.set(group, [...(groups.get(group) ?? []), [method, path, operation]]);
  }
}
const main = document.getElementById("main");
const links = make("ul");
for (const [group, operations] of groups) {
  main.append(make("h2", {}, group), ...operations.map((each) => shown(...each)));
  links.append(...operations.map(([method, path, operation]) => make("li", {},
    make("a", { href: `#${operation.operationId}` }, `${operation.summary}`), ` ${method.toUpperCase()} ${path}`)));
}
document.getElementById("contents").append(links);
document.getElementById("about").textContent = `${api.info.description.replaceAll("`", "")} mihash ${api.info.version}.`;
if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
