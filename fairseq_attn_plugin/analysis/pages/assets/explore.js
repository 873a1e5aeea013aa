(() => {
  const ALL = "*";
  const board = new Board(byId("board"));
  const state = { sentence: 0, model: several ? ALL : "0", words: !data.unspaced, divided: false,
    compact: data.models.length >= MANY, weights: data.models[0].weights[0], none: false };
  const kinds = [...new Set(data.models.flatMap((model) => model.weights))];

  // --- sentences ------------------------------------------------------------------------------------------------------
  const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const VALUE = new Uint8Array(128);
  for (let digit = 0; digit < 64; digit++) VALUE[DIGITS.charCodeAt(digit)] = digit;

  /** Each weight is two digits of base 64, in 4095ths of the greatest weight. */
  function decode([greatest, text]) {
    const weights = new Float64Array(text.length / 2);
    for (let at = 0; at < weights.length; at++) {
      weights[at] = ((VALUE[text.charCodeAt(2 * at)] * 64 + VALUE[text.charCodeAt(2 * at + 1)]) * greatest) / 4095;
    }
    return weights;
  }

  const wordsOf = (side) => side.words || side.tokens;
  const sentences = data.sentences.map((one, place) => {
    const sources = one.sources.map((side) => wordsOf(side).join(" "));
    // another model may know a word that one model does not know
    const text = sources.find((source) => !source.includes("<unk>")) || sources[0];
    return { ...one, place, text, length: wordsOf(one.sources[0]).length };
  });
  /** What the search reads; made when it is first used. */
  function found(one) {
    const sides = [...one.sources, ...one.targets].map((side) => wordsOf(side).join(" "));
    one.found ??= [one.id, ...sides, one.reference || ""].join("\n").toLowerCase();
    return one.found;
  }
  const places = new Map(sentences.map((one) => [one.id, one.place]));

  const scoresOf = (views) => views.filter((view) => view && view.score != null).map((view) => view.score);
  const viewsOf = (sentence) => (state.model === ALL ? sentence.views : [sentence.views[Number(state.model)]]);

  function score(sentence) {
    const known = scoresOf(viewsOf(sentence));
    return known.length ? known.reduce((sum, one) => sum + one, 0) / known.length : NaN;
  }

  /** The greatest minus the smallest score of the models. */
  function spread(sentence) {
    const known = scoresOf(sentence.views);
    return known.length > 1 ? Math.max(...known) - Math.min(...known) : -1;
  }

  /**
   * How much the attention of the models differs, 0 to 1: the total variation, half the sum of |a - b| over the source
   * words, between normalised weights of two models; the mean over target words and pairs of models. -1 if no two models
   * have the same target.
   */
  function disagreement(sentence) {
    if (sentence.disagreement !== undefined) return sentence.disagreement;
    const shown = sentence.views.map((view, model) => ({ view, kind: kindOf(model) })).filter((one) => one.view);
    let [sum, count] = [0, 0];
    for (let a = 0; a < shown.length; a++) {
      for (let b = a + 1; b < shown.length; b++) {
        if (shown[a].view.text !== shown[b].view.text) continue;
        const [one, two] = [shown[a], shown[b]].map(({ view, kind }) => divideRows(mergeWeights(decode(view.weights[kind]),
          unitsOf(sentence.sources[view.source], true), unitsOf(sentence.targets[view.target], true))));
        one.forEach((row, t) => {
          row.forEach((weight, j) => { sum += Math.abs(weight - two[t][j]) / 2; });
          count += 1;
        });
      }
    }
    sentence.disagreement = count ? sum / count : -1;
    return sentence.disagreement;
  }

  function kindOf(model) {
    const known = data.models[model].weights;
    return known.includes(state.weights) ? state.weights : known[0];
  }

  // --- list -----------------------------------------------------------------------------------------------------------
  const shares = sentences.some((one) => {
    const targets = one.views.filter(Boolean).map((view) => view.text);
    return new Set(targets).size < targets.length;
  });
  const nan = (value) => (Number.isNaN(value) ? Infinity : value);
  const ORDERS = {
    corpus: ["Order of the corpus", (one) => one.place],
    short: ["Shortest first", (one) => one.length],
    long: ["Longest first", (one) => -one.length],
    worst: ["Lowest probability first", (one) => nan(score(one))],
    best: ["Highest probability first", (one) => nan(-score(one))],
    ...(several ? { spread: ["Scores differ most", (one) => -spread(one)] } : {}),
    ...(several && shares ? { disagreement: ["Attention differs most", (one) => -disagreement(one)] } : {}),
  };
  for (const [value, [text]] of Object.entries(ORDERS)) byId("sort").append(element("option", { value }, text));

  const PAGE = 100; // sentences in the list at a time
  let order = [], page = 0;

  function item(one, at) {
    let text = viewsOf(one).some(Boolean) ? signed(score(one)) : "";
    const kind = byId("sort").value;
    if (kind === "spread" && spread(one) >= 0) text += `  \u00b7  scores differ ${spread(one).toFixed(2)}`;
    if (kind === "disagreement" && disagreement(one) >= 0) text += `  \u00b7  differs ${disagreement(one).toFixed(2)}`;
    const words = `${one.length} word${one.length === 1 ? "" : "s"}${text && "  \u00b7  "}${text}`;
    const made = element("li", { role: "option", id: `sentence-${one.id}`, "aria-selected": "false",
      "aria-setsize": order.length, "aria-posinset": at + 1 },
      element("span", { class: "number" }, String(one.id)),
      element("div", {}, element("div", { class: "words-of", dir: "auto",
        lang: one.text ? languageTag(data.languages[0]) : null }, one.text || "(empty)"),
        element("div", { class: "scores" }, words)));
    made.addEventListener("click", () => {
      choose(one.place);
      toggleList(false);
    });
    return made;
  }

  /** Fills the list with a page of the sentences in their order. */
  function turn(to) {
    const pages = Math.max(1, Math.ceil(order.length / PAGE));
    page = Math.min(Math.max(to, 0), pages - 1);
    const start = page * PAGE, end = Math.min(start + PAGE, order.length);
    byId("list").replaceChildren(...order.slice(start, end).map((one, number) => item(one, start + number)));
    byId("list").scrollTop = 0;
    byId("pager").hidden = pages === 1;
    byId("pages").textContent = `${start + 1}\u2013${end} of ${order.length}`;
    byId("page-before").disabled = page === 0;
    byId("page-after").disabled = page === pages - 1;
  }

  const limit = (id, none) => (byId(id).value === "" ? none : Number(byId(id).value));

  /** Fills the list anew, from its first page or, with `chosen`, from that of the sentence that is shown. */
  function fill(chosen = false) {
    const wanted = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [fewest, most] = [limit("least-words", 0), limit("most-words", Infinity)];
    const [lowest, highest] = [limit("least-score", -Infinity), limit("most-score", Infinity)];
    const scored = lowest > -Infinity || highest < Infinity;
    const key = ORDERS[byId("sort").value][1];
    order = sentences.filter((one) => {
      const fits = one.length >= fewest && one.length <= most && wanted.every((word) => found(one).includes(word));
      return fits && (!scored || (score(one) >= lowest && score(one) <= highest));
    });
    const keys = new Map(order.map((one) => [one, key(one)]));
    order.sort((a, b) => keys.get(a) - keys.get(b) || a.place - b.place);
    const at = order.findIndex((one) => one.place === state.sentence);
    turn(chosen && at >= 0 ? Math.floor(at / PAGE) : 0);
    const all = `${sentences.length} sentence${sentences.length === 1 ? "" : "s"}`;
    if (!order.length) byId("count").textContent = `None of ${all} matches`;
    else byId("count").textContent = order.length === sentences.length ? all : `${order.length} of ${all}`;
    const filtering = RANGES.some((id) => byId(id).value !== "");
    byId("open-filters").textContent = filtering ? "Filter \u2022" : "Filter";
    // without a match the board is empty as well
    const none = Boolean(sentences.length && !order.length);
    if (none || state.none) {
      state.none = none;
      render(false);
    }
    mark();
  }

  const RANGES = ["least-words", "most-words", "least-score", "most-score"];

  function nothing() {
    const clear = element("button", { type: "button" }, "Show all sentences");
    clear.addEventListener("click", () => {
      for (const id of ["search", ...RANGES]) byId(id).value = "";
      fill(true);
    });
    const limits = [byId("search").value.trim() && "the search", RANGES.some((id) => byId(id).value) && "the filter"];
    byId("board").append(element("div", { class: "card none" },
      element("p", {}, `No sentence matches ${limits.filter(Boolean).join(" and ")}.`), clear));
  }

  function mark() {
    const at = order.findIndex((one) => one.place === state.sentence);
    const list = byId("list");
    for (const one of list.querySelectorAll("[aria-selected=true]")) one.setAttribute("aria-selected", "false");
    const marked = at >= 0 && Math.floor(at / PAGE) === page ? list.children[at % PAGE] : null;
    if (marked) {
      marked.setAttribute("aria-selected", "true");
      list.setAttribute("aria-activedescendant", marked.id);
      const [around, box] = [list.getBoundingClientRect(), marked.getBoundingClientRect()];
      if (around.height && (box.top < around.top || box.bottom > around.bottom)) marked.scrollIntoView({ block: "nearest" });
    } else list.removeAttribute("aria-activedescendant");
    byId("previous").disabled = order.length === 0 || at === 0;
    byId("next").disabled = order.length === 0 || at === order.length - 1;
    const number = order.length ? `Sentence ${sentences[state.sentence].id}` : "No sentence";
    byId("position").replaceChildren(element("b", {}, number),
      element("span", { class: "muted" }, at >= 0 ? `  ${at + 1} of ${order.length}` : ""));
  }

  function step(by) {
    if (!order.length) return;
    const at = order.findIndex((one) => one.place === state.sentence);
    const next = at < 0 ? 0 : Math.min(Math.max(at + by, 0), order.length - 1);
    if (Math.floor(next / PAGE) !== page) turn(Math.floor(next / PAGE));
    choose(order[next].place);
  }

  // --- the sentence ---------------------------------------------------------------------------------------------------
  function view(sentence, model) {
    const { label, architecture, target } = data.models[model];
    const shown = { label, languages: data.languages };
    const given = sentence.views[model];
    if (!given) return { ...shown, note: "The file of this model lacks this sentence; it may be too long for the model." };
    const source = unitsOf(sentence.sources[given.source], state.words);
    const side = unitsOf(sentence.targets[given.target], state.words);
    const kind = kindOf(model);
    const forced = target === "reference";
    const weights = mergeWeights(decode(given.weights[kind]), source, side);
    return {
      ...shown, source, target: side, score: given.score,
      sourceKey: state.words ? 0 : given.source, targetKey: state.words ? given.text : given.target, targetText: given.text,
      detail: [architecture, kinds.length > 1 ? kind : null].filter(Boolean).join(", "),
      weights: state.divided ? divideRows(weights) : weights,
      scores: given.scores ? mergeScores(given.scores, side) : null,
      targetKind: forced ? "reference" : `translation, ${target}`,
      reference: forced ? null : sentence.reference,
    };
  }

  function render(keep) {
    if (!sentences.length) return;
    if (state.none) {
      board.show([]);
      nothing();
      return;
    }
    const sentence = sentences[state.sentence];
    const shown = data.models.map((_, number) => number).filter((number) => state.model === ALL || state.model === String(number));
    board.show(shown.map((number) => view(sentence, number)), keep, state.compact && shown.length > 1);
  }

  function choose(place) {
    const other = place !== state.sentence;
    state.sentence = place;
    render(!other);
    mark();
    link();
  }

  // --- switches -------------------------------------------------------------------------------------------------------
  const models = [...data.models.map((model, number) => [String(number), model.label]), [ALL, "all"]];

  function switches() {
    const made = [];
    if (several) {
      made.push((data.models.length > MANY ? menu : choice)("Model", "model", models, state.model, (value) => set({ model: value })));
    }
    if (data.subwords) made.push(unitsChoice(state.words, (words) => set({ words })));
    if (kinds.length > 1) {
      made.push(choice("Weights", "weights", kinds.map((kind) => [kind, kind]), state.weights, (value) => set({ weights: value })));
    }
    if (several && state.model === ALL) {
      made.push(choice("Cards", "cards", [["full", "full"], ["compact", "compact"]], state.compact ? "compact" : "full",
        (value) => set({ compact: value === "compact" })));
    }
    if (data.heavy) made.push(rowsChoice(state.divided, (divided) => set({ divided })));
    const focused = document.activeElement && document.activeElement.name;
    byId("switches").replaceChildren(...made);
    if (focused) {
      const again = byId("switches").querySelector(`input[name="${CSS.escape(focused)}"]:checked, select[name="${CSS.escape(focused)}"]`);
      if (again) again.focus();
    }
  }

  function set(changes) {
    const scored = "model" in changes;
    if ("weights" in changes) sentences.forEach((one) => { delete one.disagreement; });
    Object.assign(state, changes);
    switches();
    if (scored || ("weights" in changes && byId("sort").value === "disagreement")) fill(true);
    render(!("words" in changes));
    link();
  }

  const after = (values, value) => values[(values.indexOf(value) + 1) % values.length];

  // --- address: #sentence=17&model=adm&cards=compact&show=subwords&weights=posterior&rows=one -------------------------
  function link() {
    if (!sentences.length) return;
    byId("message").hidden = true;
    const parts = new URLSearchParams({ sentence: sentences[state.sentence].id });
    if (several) parts.set("model", state.model === ALL ? "all" : data.models[Number(state.model)].label);
    if (several && state.compact !== data.models.length >= MANY) parts.set("cards", state.compact ? "compact" : "full");
    if (state.words === data.unspaced) parts.set("show", state.words ? "words" : "subwords");
    if (kinds.length > 1) parts.set("weights", state.weights);
    if (state.divided) parts.set("rows", "one");
    setAddress(parts);
  }

  function follow() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const problems = [];
    if (parts.has("sentence")) {
      const place = places.get(Number(parts.get("sentence")));
      if (place === undefined) problems.push(`Sentence ${parts.get("sentence")} is not on this page.`);
      else state.sentence = place;
    }
    if (parts.has("model") && several) {
      const number = data.models.findIndex((model) => model.label === parts.get("model"));
      if (number >= 0) state.model = String(number);
      else if (parts.get("model") === "all") state.model = ALL;
      else problems.push(`The model ${parts.get("model")} is not on this page.`);
    }
    if (parts.has("cards")) state.compact = parts.get("cards") === "compact";
    if (parts.has("show")) state.words = !(data.subwords && parts.get("show") === "subwords");
    if (kinds.includes(parts.get("weights"))) state.weights = parts.get("weights");
    if (parts.has("rows")) state.divided = data.heavy && parts.get("rows") === "one";
    switches();
    fill(true);
    render(false);
    byId("message").textContent = problems.join(" ");
    byId("message").hidden = !problems.length;
  }

  // --- events --------------------------------------------------------------------------------------------------------
  function toggleList(open) {
    document.querySelector("aside").classList.toggle("open", open);
    byId("open-list").setAttribute("aria-expanded", String(open));
    if (open) mark();
  }
  byId("open-list").addEventListener("click", () => toggleList(!document.querySelector("aside").classList.contains("open")));
  byId("open-filters").addEventListener("click", () => {
    byId("filters").hidden = !byId("filters").hidden;
    byId("open-filters").setAttribute("aria-expanded", String(!byId("filters").hidden));
  });
  for (const id of ["search", ...RANGES]) byId(id).addEventListener("input", () => fill());
  byId("sort").addEventListener("change", () => fill());
  for (const [id, by] of [["page-before", -1], ["page-after", 1]]) {
    byId(id).addEventListener("click", () => {
      turn(page + by);
      mark();
    });
  }
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  byId("open-help").addEventListener("click", () => byId("help").showModal());
  byId("list").addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    step(by);
  });
  const KEYS = {
    j: () => step(1),
    k: () => step(-1),
    ArrowRight: () => board.move(1),
    ArrowLeft: () => board.move(-1),
    x: () => board.cross(),
    m: () => { if (several) set({ model: after(models.map(([value]) => value), state.model) }); },
    w: () => { if (data.subwords) set({ words: !state.words }); },
    p: () => { if (kinds.length > 1) set({ weights: after(kinds, state.weights) }); },
    c: () => { if (several && state.model === ALL) set({ compact: !state.compact }); },
    n: () => { if (data.heavy) set({ divided: !state.divided }); },
    "/": () => { toggleList(true); byId("search").focus(); },
    "?": () => byId("help").showModal(),
    Escape: () => board.release(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const typing = event.target.closest("input:not([type=radio]), select, textarea");
    if (typing) {
      if (event.key === "Escape") typing.blur();
      return;
    }
    const own = event.target.matches("input[type=radio], .map, .table"); // they have their own arrows
    if (!(event.key in KEYS) || (own && event.key.startsWith("Arrow"))) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  window.addEventListener("hashchange", follow);

  byId("title").textContent = data.title;
  byId("subtitle").textContent = data.subtitle;
  const columns = [["Model", "label"], ["Architecture", "architecture"], ["Checkpoint", "checkpoint"], ["Split", "split"],
    ["Target", "target"], ["Options", "options"]].filter(([, key]) => data.models.some((model) => model[key]));
  byId("about").append(element("table", {},
    element("thead", {}, element("tr", {}, ...columns.map(([text]) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, ...data.models.map((model) =>
      element("tr", {}, ...columns.map(([, key]) => element("td", {}, String(model[key] || ""))))))));
  follow();
})();
