"use strict";
// Draws translations and their attention. Values from the data enter the page as text, never as markup.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const several = data.models.length > 1;
const MANY = 4; // models from which on they are shown compactly at first

/** An HTML element with attributes and children; strings become text. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function drawn(tag, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  if (text) made.textContent = text;
  return made;
}

/** A number with two decimals; a dash for null, which stands for infinities in JSON. */
const signed = (number) => (Number.isFinite(number) ? number.toFixed(2).replace("-", "\u2212") : "\u2013");

/** The language tag of a code, for the attribute `lang`; null if the code is invalid or of no known language. */
function languageTag(code) {
  try {
    const tag = Intl.getCanonicalLocales(code.replace(/_/g, "-"))[0];
    return new Intl.DisplayNames(["en"], { type: "language", fallback: "none" }).of(tag) ? tag : null;
  } catch (error) {
    return null;
  }
}

/** Whether the first letter belongs to a script that runs from right to left. */
function rightToLeft(texts) {
  const letter = texts.join(" ").match(/\p{L}/u);
  return Boolean(letter && /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/.test(letter[0]));
}

/** The English name of a language ("German" for "de"); the code itself if the browser does not know it. */
function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(languageTag(code) || code);
  } catch (error) {
    return code;
  }
}

/**
 * The units to show of one side of a sentence: {texts, unit, unknown}. `unit` is the index of the text of each token;
 * its last entry is for the end of the sentence. A side is {tokens, words, pieces, unknown}. `pieces` are the numbers of
 * tokens in the words. `words` and `pieces` are absent if every token is a word.
 */
function unitsOf(side, asWords) {
  const spelt = asWords && side.words ? side.words : side.tokens;
  const sizes = asWords && side.pieces ? side.pieces : side.tokens.map(() => 1);
  const unit = [];
  sizes.forEach((size, number) => { for (let piece = 0; piece < size; piece++) unit.push(number); });
  const unknown = new Set((side.unknown || []).map((token) => unit[token]));
  unit.push(spelt.length);
  return { texts: [...spelt, "end"], unit, unknown };
}

/** Weights between units, as rows: sums over the tokens of a source unit, means over the tokens of a target unit. */
function mergeWeights(weights, source, target) {
  const columns = source.unit.length;
  const rows = target.texts.map(() => new Float64Array(source.texts.length));
  const counts = new Array(rows.length).fill(0);
  target.unit.forEach((row, token) => {
    counts[row] += 1;
    for (let column = 0; column < columns; column++) rows[row][source.unit[column]] += weights[token * columns + column];
  });
  rows.forEach((row, number) => row.forEach((sum, column) => { row[column] = sum / counts[number]; }));
  return rows;
}

/** Log probabilities of units: sums over their tokens; NaN if one is unknown. */
function mergeScores(scores, target) {
  const sums = new Array(target.texts.length).fill(0);
  target.unit.forEach((row, token) => { sums[row] += scores[token] ?? NaN; });
  return sums;
}

/** Weights, with each row divided by its sum. */
const divideRows = (rows) => rows.map((row) => {
  const sum = row.reduce((total, weight) => total + weight, 0);
  return row.map((weight) => (sum ? weight / sum : 0));
});

/** The shade of a weight, 0 to 1; the power makes small weights visible. */
const shadeOf = (weight, greatest) => Math.pow(Math.min(Math.max(weight / greatest, 0), 1), 0.65);

const LEAST = 0.005; // weights that round to 0.01 or more

/** The mean log p of a translation, which opens what it means. */
function scoreOf({ score, targetKind }) {
  const tokens = `the tokens of this ${(targetKind || "translation").split(",")[0]}, the end included`;
  const number = Number.isFinite(score) ? ` ${signed(score)} is a probability of ${Math.exp(score).toFixed(2)} for each token (geometric mean).` : "";
  return element("details", { class: "score" }, element("summary", {}, `mean log p ${signed(score)}`),
    element("p", {}, `The mean of the natural logarithms of the probabilities that the model gives to ${tokens}. 0 is certain.${number} `
      + "Compare models only if they have the same subwords."));
}

/** One translation: two rows of words, a line of text about the active word, and a heatmap. */
class Card {
  /**
   * shown: {label, detail, source, target, sourceKey, targetKey, targetText, weights, scores, languages, targetKind,
   * reference, note}. source and target are results of unitsOf, weights of mergeWeights. A card with a note shows only
   * the note. Sides with the same key have the same units; targets with the same targetText have the same words.
   */
  constructor(shown, board, number) {
    this.shown = shown;
    this.board = board;
    this.number = number;
    const [source, target] = shown.languages.map(languageTag);
    this.tags = { source, target };
    this.root = element("article", { class: `card${board.compact ? " compact" : ""}`, "data-model": shown.label });
    const header = element("header", {}, element("h2", { dir: "auto" }, shown.label));
    if (shown.detail) header.append(element("span", { class: "detail" }, shown.detail));
    this.root.append(header);
    if (shown.note) {
      this.root.append(element("p", { class: "nothing" }, shown.note));
      return;
    }
    if (shown.score !== undefined) header.append(scoreOf(shown));
    this.links = drawn("svg", { class: "links", "aria-hidden": "true" });
    this.words = { source: this.row("source"), target: this.row("target") };
    this.pair = element("div", { class: "pair" }, this.links, this.words.source.row, this.words.target.row);
    this.readout = element("p", { class: "readout", "aria-live": "polite" });
    const text = element("div", { class: "text" }, this.pair, this.readout);
    if (shown.reference) {
      text.append(element("p", { class: "reference" }, element("span", { class: "row-label" }, "Reference"),
        element("bdi", { lang: this.tags.target }, shown.reference)));
    }
    this.map = element("div", { class: "map", role: "group", "aria-label": `Heatmap of ${shown.label}` });
    this.body = element("div", { class: "card-body" }, text, this.map);
    this.root.append(this.body);
  }

  row(side) {
    const { shown } = this;
    const { texts, unknown } = shown[side];
    const dir = rightToLeft(texts) ? "rtl" : "ltr"; // also of words without letters, so that brackets are mirrored
    const buttons = texts.map((text, index) => {
      const end = index === texts.length - 1;
      return element("button", {
        type: "button", class: "word" + (end ? " end" : "") + (unknown.has(index) ? " unknown" : ""),
        tabindex: index ? -1 : 0, "data-side": side, "data-index": index,
        title: end ? "end of the sentence" : unknown.has(index) ? "not in the vocabulary" : null,
      }, element("bdi", { lang: end ? null : this.tags[side], dir: /\p{L}/u.test(text) ? null : dir }, text),
        element("span", { class: "value", "aria-hidden": "true" }));
    });
    const language = languageName(shown.languages[side === "source" ? 0 : 1]);
    const label = side === "target" && shown.targetKind ? `${language}, ${shown.targetKind}` : language;
    const words = element("div", { class: "words", role: "group", dir, "aria-label": `${side} words` }, ...buttons);
    const name = element("span", { class: "row-label" }, label);
    // the lines between the rows cross neither label
    const parts = side === "source" ? [name, words] : [words, name];
    return { buttons, row: element("div", { class: `row ${side}` }, ...parts) };
  }

  /** Computes sizes, which depend on the window; called when the card enters the page and when its width changes. */
  layout() {
    if (this.shown.note) return;
    const { source, target } = this.shown;
    const width = this.root.clientWidth - (this.board.compact ? 26 : 42);
    const beside = width >= 700 && source.texts.length <= 26 && !this.board.compact;
    this.body.classList.toggle("stacked", !beside);
    this.drawMap(beside ? width * 0.46 : width);
    this.paint(this.side, this.index, this.other, this.idle);
  }

  drawMap(available) {
    const { source, target, weights, label } = this.shown;
    const { compact } = this.board;
    const [rows, columns] = [target.texts.length, source.texts.length];
    const fit = labels(target.texts, compact ? 84 : 120), top = labels(source.texts, compact ? 84 : 110);
    const [least, most] = compact ? [8, 14] : [12, 24];
    const cell = Math.max(least, Math.min(most, Math.floor((available - fit.size - 14) / columns)));
    const [left, above] = [fit.size + 8, top.size + 8];
    const [width, height] = [left + Math.max(columns * cell + 2, 128), above + rows * cell + 30];
    const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", class: cell < 12 ? "densest" : cell < 15 ? "dense" : "",
      "aria-label": `Heatmap of ${label}: a row for each target word, a column for each source word` });
    svg.append(drawn("rect", { class: "back", x: left, y: above, width: columns * cell, height: rows * cell }));
    weights.forEach((row, t) => row.forEach((weight, j) => {
      if (weight < LEAST / 2) return;
      const opacity = shadeOf(weight, this.board.greatest).toFixed(3);
      svg.append(drawn("rect", { class: "cell", x: left + j * cell, y: above + t * cell, width: cell, height: cell,
        "fill-opacity": opacity, "data-row": t, "data-column": j }));
    }));
    let lines = "";
    for (let j = 0; j <= columns; j++) lines += `M${left + j * cell} ${above}v${rows * cell}`;
    for (let t = 0; t <= rows; t++) lines += `M${left} ${above + t * cell}h${columns * cell}`;
    svg.append(drawn("path", { class: "grid", d: lines }));
    this.labels = { source: [], target: [] };
    top.texts.forEach((text, j) => {
      const [x, y] = [left + (j + 0.5) * cell + 4, above - 6];
      const end = j === columns - 1 ? "end" : "";
      this.labels.source.push(drawn("text", { x, y, transform: `rotate(-90 ${x} ${y})`, class: end,
        lang: end ? null : this.tags.source }, text));
    });
    fit.texts.forEach((text, t) => {
      const [x, y] = [left - 7, above + (t + 0.5) * cell + 4];
      const end = t === rows - 1 ? "end" : "";
      this.labels.target.push(drawn("text", { x, y, "text-anchor": "end", class: end,
        lang: end ? null : this.tags.target }, text));
    });
    this.band = drawn("rect", { class: "band", visibility: "hidden" });
    svg.append(...this.labels.source, ...this.labels.target, this.band, this.legend(left, above + rows * cell + 12));
    this.geometry = { cell, left, above, rows, columns };
    const at = (event) => {
      const box = svg.getBoundingClientRect();
      const j = Math.floor((event.clientX - box.left - left) / cell), t = Math.floor((event.clientY - box.top - above) / cell);
      if (j < 0 || t < 0 || j >= columns || t >= rows) return this.board.hideTip();
      this.board.point(this, "target", t, j);
      this.board.showTip(event, target.texts[t], source.texts[j], weights[t][j]);
    };
    svg.addEventListener("pointermove", at);
    svg.addEventListener("pointerdown", at);
    svg.addEventListener("pointerleave", () => this.board.hideTip());
    this.map.replaceChildren(svg);
    // a keyboard scrolls what has the focus
    if (this.map.scrollWidth > this.map.clientWidth) this.map.tabIndex = 0;
    else this.map.removeAttribute("tabindex");
  }

  /** The scale of the shades, labelled at both ends. */
  legend(x, y) {
    const group = drawn("g", { class: "legend" });
    const steps = 24, width = 72;
    group.append(drawn("text", { x, y: y + 9 }, "0"));
    for (let step = 0; step < steps; step++) {
      group.append(drawn("rect", { class: "cell", x: x + 14 + (step * width) / steps, y: y + 1, width: width / steps,
        height: 9, "fill-opacity": shadeOf((step + 1) / steps, 1).toFixed(3) }));
    }
    const { greatest } = this.board;
    group.append(drawn("text", { x: x + width + 20, y: y + 9 }, greatest > 1.0005 ? greatest.toFixed(2) : "1"));
    return group;
  }

  /** The weights of a word with the words of the other side. */
  weightsOf(side, index) {
    const { weights } = this.shown;
    return side === "target" ? Array.from(weights[index]) : weights.map((row) => row[index]);
  }

  /** Shades the words of the other side by their weights with this word. If `side` is null, shows the text `idle`. */
  paint(side, index, other = null, idle = "") {
    if (this.shown.note) return;
    Object.assign(this, { side, index, other, idle });
    const { source, target, scores } = this.shown;
    const pinned = this.board.pinned;
    const valid = side && index < this.shown[side].texts.length;
    const weights = valid ? this.weightsOf(side, index) : [];
    for (const name of ["source", "target"]) {
      this.words[name].buttons.forEach((button, number) => {
        const active = valid && name === side && number === index;
        const weight = valid && name !== side ? weights[number] : 0;
        button.classList.toggle("active", Boolean(active));
        button.classList.toggle("pinned", Boolean(active && pinned));
        button.setAttribute("aria-pressed", String(Boolean(active && pinned)));
        button.style.setProperty("--shade", shadeOf(weight, this.board.greatest).toFixed(3));
        button.dataset.weight = weight.toFixed(4);
        button.lastChild.textContent = weight >= LEAST ? weight.toFixed(2) : "";
        this.labels[name][number].classList.toggle("on", Boolean(active) || (name === "source" && number === other));
      });
    }
    this.drawBand(valid ? side : null, index);
    this.drawLinks(valid ? side : null, index);
    this.readout.replaceChildren();
    if (!valid) {
      this.readout.append(idle);
      return;
    }
    const others = (side === "target" ? source : target).texts;
    const given = others.map((text, number) => ({ text, end: number === others.length - 1, weight: weights[number] }));
    const named = (text, end, of) => (end ? element("i", {}, "the end")
      : element("b", {}, element("bdi", { lang: this.tags[of] }, text)));
    const seen = given.filter((one) => one.weight >= LEAST).sort((a, b) => b.weight - a.weight);
    const text = this.shown[side].texts[index];
    this.readout.append(named(text, index === this.shown[side].texts.length - 1, side));
    if (side === "target" && scores) {
      this.readout.append(` (probability ${signed(Math.exp(Math.min(0, scores[index])))})`);
    }
    if (!seen.length) {
      this.readout.append(side === "target" ? " attends to no word" : " gets attention from no word");
      return;
    }
    this.readout.append(side === "target" ? " attends to " : " gets attention from ");
    seen.slice(0, 5).forEach((one, number) => {
      this.readout.append(number ? ", " : "", named(one.text, one.end, side === "target" ? "source" : "target"), " ",
        element("span", { class: "amount" }, one.weight.toFixed(2)));
    });
    if (seen.length > 5) this.readout.append(`, and ${seen.length - 5} more`);
  }

  drawBand(side, index) {
    const { cell, left, above, rows, columns } = this.geometry;
    this.band.setAttribute("visibility", side ? "visible" : "hidden");
    if (!side) return;
    const box = side === "target"
      ? { x: left, y: above + index * cell, width: columns * cell, height: cell }
      : { x: left + index * cell, y: above, width: cell, height: rows * cell };
    for (const [name, value] of Object.entries(box)) this.band.setAttribute(name, value);
  }

  drawLinks(side, index) {
    this.links.replaceChildren();
    if (!side || this.board.compact) return;
    const frame = this.pair.getBoundingClientRect();
    this.weightsOf(side, index).forEach((weight, number) => {
      if (weight / this.board.greatest < 0.02) return;
      const [t, j] = side === "target" ? [index, number] : [number, index];
      const from = this.words.source.buttons[j].getBoundingClientRect();
      const to = this.words.target.buttons[t].getBoundingClientRect();
      const [x, y] = [(from.left + from.right) / 2 - frame.left, from.bottom - frame.top];
      const [u, v] = [(to.left + to.right) / 2 - frame.left, to.top - frame.top];
      const bend = Math.max(18, (v - y) * 0.5);
      const shade = shadeOf(weight, this.board.greatest);
      this.links.append(drawn("path", { d: `M${x} ${y}C${x} ${y + bend} ${u} ${v - bend} ${u} ${v}`,
        "stroke-width": (1 + 5 * shade).toFixed(2), "stroke-opacity": (0.12 + 0.4 * shade).toFixed(3) }));
    });
  }
}

const ruler = document.createElement("canvas").getContext("2d");

/** Texts shortened to at most `most` pixels, and the width of the longest. */
function labels(texts, most) {
  // bold, like the label of the active word
  ruler.font = `700 12px ${getComputedStyle(document.body).fontFamily}`;
  const cut = texts.map((text) => {
    const letters = Array.from(text);
    if (ruler.measureText(text).width <= most) return text;
    while (letters.length > 1 && ruler.measureText(letters.join("") + "\u2026").width > most) letters.pop();
    return letters.join("") + "\u2026";
  });
  return { texts: cut, size: Math.ceil(Math.max(...cut.map((text) => ruler.measureText(text).width))) };
}

/**
 * Cards side by side. A word is active in all cards that have the same units on its side. The scale of the shades is the
 * same in all cards.
 */
class Board {
  constructor(root) {
    this.root = root;
    this.cards = [];
    this.active = null;
    this.pinned = false;
    this.tip = element("div", { class: "tip", hidden: true, role: "status" });
    document.body.append(this.tip);
    root.addEventListener("pointerover", (event) => {
      const word = event.target.closest(".word");
      if (word && event.pointerType !== "touch") this.pointWord(word);
    });
    root.addEventListener("focusin", (event) => {
      const word = event.target.closest(".word");
      if (word && word.matches(":focus-visible")) this.pointWord(word, true);
    });
    root.addEventListener("click", (event) => {
      const word = event.target.closest(".word");
      if (!word) return;
      const again = this.pinned && word.classList.contains("active");
      this.pinned = !again;
      this.pointWord(word, true);
    });
    new ResizeObserver(() => {
      if (this.width !== root.clientWidth) this.layout();
    }).observe(root);
  }

  layout() {
    this.width = this.root.clientWidth;
    this.cards.forEach((card) => card.layout());
  }

  /** Shows cards; with `keep` the active word stays active if it still exists. Compact cards lack the row of the source. */
  show(list, keep = false, compact = false) {
    this.hideTip();
    this.compact = compact;
    this.root.classList.toggle("compact", compact);
    const rows = list.flatMap((shown) => shown.weights || []);
    this.greatest = rows.reduce((most, row) => Math.max(most, ...row), 1);
    this.cards = list.map((shown, number) => new Card(shown, this, number));
    this.root.replaceChildren(...this.cards.map((card) => card.root));
    const drawnCards = this.cards.filter((card) => !card.shown.note);
    this.pinned = this.pinned && keep && drawnCards.length > 0;
    this.layout();
    if (!drawnCards.length) {
      this.active = null;
      return;
    }
    const { side = "target", index = 0, number = 0 } = (keep && this.active) || {};
    const card = drawnCards.find((one) => one.number === number) || drawnCards[0];
    this.activate(card, side, index < card.shown[side].texts.length ? index : 0);
  }

  pointWord(word, force = false) {
    const card = this.cards.find((one) => one.root.contains(word));
    this.point(card, word.dataset.side, Number(word.dataset.index), null, force);
  }

  point(card, side, index, other = null, force = false) {
    if (this.pinned && !force) return;
    this.activate(card, side, index, other);
  }

  activate(card, side, index, other = null) {
    this.active = { side, index, number: card.number };
    const key = `${side}Key`;
    for (const one of this.cards) {
      if (one.shown.note) continue;
      if (one === card || one.shown[key] === card.shown[key]) one.paint(side, index, other);
      else if (side === "target" && one.shown.targetText !== card.shown.targetText) {
        one.paint(null, 0, null, "This translation is different; point at one of its words.");
      } else one.paint(null, 0, null, "These words are split differently; point at one of the pieces.");
    }
    for (const name of ["source", "target"]) {
      card.words[name].buttons.forEach((button, number) => {
        button.tabIndex = (name === side ? number === index : number === 0) ? 0 : -1;
      });
    }
  }

  /** Activates the next word on the active side, and moves the keyboard focus to it. */
  move(step) {
    const card = this.activeCard();
    if (!card) return;
    const { side, index } = this.active;
    const buttons = card.words[side].buttons;
    const next = Math.min(Math.max(index + step, 0), buttons.length - 1);
    this.activate(card, side, next);
    buttons[next].focus({ focusVisible: true });
  }

  /** Activates the word of the other side with the greatest weight. */
  cross() {
    const card = this.activeCard();
    if (!card) return;
    const { side, index } = this.active;
    const given = card.weightsOf(side, index);
    const to = side === "target" ? "source" : "target";
    const best = given.indexOf(Math.max(...given));
    this.activate(card, to, best);
    card.words[to].buttons[best].focus({ focusVisible: true });
  }

  release() {
    this.pinned = false;
    const card = this.activeCard();
    if (card) this.activate(card, this.active.side, this.active.index);
  }

  /** The card with the active word; null if nothing is active. */
  activeCard() {
    const card = this.active ? this.cards[this.active.number] : null;
    return card && !card.shown.note ? card : null;
  }

  showTip(event, target, source, weight) {
    this.tip.replaceChildren(element("bdi", {}, target), " \u2190 ", element("bdi", {}, source),
      element("span", { class: "amount" }, weight.toFixed(3)));
    this.tip.hidden = false;
    const box = this.tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
    const top = event.clientY - box.height - 12 < 4 ? event.clientY + 18 : event.clientY - box.height - 12;
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${top}px`;
  }

  hideTip() {
    this.tip.hidden = true;
  }
}

/** Radio buttons in a row; `change` receives the value. */
function choice(legend, name, values, current, change) {
  const choices = values.map(([value, text]) => {
    const input = element("input", { type: "radio", name, value });
    input.checked = value === current;
    input.addEventListener("change", () => change(value));
    return element("label", {}, input, text);
  });
  return element("fieldset", { class: "switch" }, element("legend", {}, legend),
    element("div", { class: "choices" }, ...choices));
}

/** The same as a menu, for many values. */
function menu(legend, name, values, current, change) {
  const made = element("select", { name }, ...values.map(([value, text]) =>
    element("option", { value, selected: value === current }, text)));
  made.addEventListener("change", () => change(made.value));
  return element("label", { class: "switch menu" }, element("span", {}, legend), made);
}

const unitsChoice = (words, change) => choice("Show", "units", [["words", "words"], ["subwords", "subwords"]],
  words ? "words" : "subwords", (value) => change(value === "words"));

const rowsChoice = (divided, change) => choice("Rows", "rows", [["given", "as they are"], ["divided", "sum to one"]],
  divided ? "divided" : "given", (value) => change(value === "divided"));

/** Writes parameters into the address of the page. */
function setAddress(parameters) {
  try {
    history.replaceState(null, "", `#${new URLSearchParams(parameters)}`);
  } catch (error) {
    // some browsers forbid the change of a file's address; the page works without it
  }
}
