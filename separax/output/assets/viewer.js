"use strict";
// The viewer of a report: controls, and what they change. The field comes from `Factors`, the
// drawing from viewer_draw.js.

const LEVELS = 6; // slices of a stack
const ROUND = 5000; // milliseconds of one run through an axis

function element(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

class Viewer {
  constructor(root, data) {
    this.root = root;
    this.factors = new Factors(data);
    this.axes = this.factors.axes;
    this.palettes = Object.fromEntries(
      Object.entries(data.colours).map(([name, stops]) => [name, palette(stops)])
    );
    this.diverging = data.diverging;
    this.space = this.axes.map((_, i) => i).filter((i) => i !== this.factors.time);
    const [across, up] = this.space.length > 1 ? this.space.slice(-2) : [0, 1];
    this.state = {
      output: 0, across, up, look: "picture", colours: Object.keys(data.colours)[0],
      scale: "whole", low: 0, high: 1, level: null, turn: -0.6, tilt: 0.6, playing: null,
    };
    this.point = this.axes.map(
      ({ low, high }, i) => low + (high - low) * (
        i === this.factors.time ? 0 : i === across || i === up ? 0.6 : 0.82
      )
    );
    // begins where there is something to see
    for (let part = 0.05; part < 1 && !this.factors.inside(this.point); part += 0.1) {
      for (const axis of [across, up]) this.point[axis] = this.axes[axis].low + part * (
        this.axes[axis].high - this.axes[axis].low
      );
    }
    this.values = new Float32Array(GRID * GRID);
    this.image = small();
    this.stack = Array.from({ length: LEVELS }, small);
    this.build();
    this.refresh();
  }

  get output() {
    return this.factors.outputs[this.state.output];
  }

  get hidden() {
    return this.axes.map((_, i) => i).filter((i) => i !== this.state.across && i !== this.state.up);
  }

  get third() {
    return this.hidden.find((i) => this.space.includes(i));
  }

  // --- the controls ------------------------------------------------------------------------------

  build() {
    const names = this.axes.map((axis, i) => [i, axis.name]);
    const looks = [["picture", "picture"], ["surface", "surface"]];
    if (this.space.length > 2) looks.push(["stack", "stacked slices"], ["solid", "iso-surface"]);
    this.controls = element("div", { class: "controls" });
    if (this.factors.outputs.length > 1) {
      this.choice(
        "field",
        this.factors.outputs.map((o, i) => [i, o.name]),
        this.state.output,
        (v) => this.set({ output: Number(v), level: null })
      );
    }
    if (this.axes.length > 2) {
      this.selectAcross = this.choice(
        "across", names, this.state.across, (v) => this.show("across", Number(v))
      );
      this.selectUp = this.choice("up", names, this.state.up, (v) => this.show("up", Number(v)));
    }
    this.choice("view", looks, "picture", (v) => this.set({ look: v }));
    this.choice(
      "colours",
      Object.keys(this.palettes).map((n) => [n, n]),
      this.state.colours,
      (v) => this.set({ colours: v })
    );
    this.choice(
      "range",
      [["whole", "whole solution"], ["slice", "this slice"], ["hand", "by hand"]],
      "whole",
      (v) => this.setScale(v)
    );
    this.limits = ["low", "high"].map((name) => this.limit(name));
    this.sliders = element("div", { class: "sliders" });
    this.buildLevel();
    this.main = element("canvas", { class: "main", tabindex: "0", role: "img" });
    this.bar = element("canvas", { class: "bar", "aria-hidden": "true" });
    this.lines = [
      element("canvas", { class: "cut", role: "img" }),
      element("canvas", { class: "cut", role: "img" })
    ];
    this.readout = element("output", { class: "value", "aria-live": "polite" });
    const pictures = element("div", { class: "pictures" },
      element("div", {}, this.readout, this.main, this.bar),
      element("div", { class: "cuts" }, ...this.lines));
    this.root.append(this.controls, this.sliders, this.level.row, pictures);
    this.buildSliders();
    this.listen();
  }

  choice(label, options, chosen, onchange) {
    const select = element(
      "select", { "aria-label": label, onchange: (event) => onchange(event.target.value) },
      ...options.map(
        ([value, text]) => element("option", { value, selected: value === chosen }, text)
      ));
    this.controls.append(element("label", {}, element("span", {}, label), select));
    return select;
  }

  limit(name) {
    const input = element(
      "input",
      {
        type: "number",
        "aria-label": name,
        step: "any",
        inputmode: "decimal",
        onchange: () => this.byHand(name, input)
      }
    );
    const label = element(
      "label", { class: "limit", hidden: true }, element("span", {}, name), input
    );
    this.controls.append(label);
    return { label, input };
  }

  byHand(name, input) {
    const value = Number(input.value);
    if (input.value.trim() !== "" && Number.isFinite(value)) this.set({ [name]: value });
  }

  setScale(scale) {
    const { low, high } = this.range();
    this.limits.forEach(({ label, input }, i) => {
      label.hidden = scale !== "hand";
      input.value = Number([low, high][i].toPrecision(4));
    });
    this.set({ scale, low: Number(low.toPrecision(4)), high: Number(high.toPrecision(4)) });
  }

  // Shows an axis; the one that was there takes its place.
  show(role, axis) {
    const other = role === "across" ? "up" : "across";
    const change = { [role]: axis };
    if (this.state[other] === axis) change[other] = this.state[role];
    this.stop();
    Object.assign(this.state, change);
    this.selectAcross.value = this.state.across;
    this.selectUp.value = this.state.up;
    this.buildSliders();
    this.refresh();
  }

  buildSliders() {
    this.moving = new Map();
    this.sliders.replaceChildren(...this.hidden.map((axis) => {
      const { name, low, high } = this.axes[axis];
      const id = `slider-${axis}`;
      const shown = element("output", { for: id });
      const input = element("input", {
        type: "range", id, min: low, max: high, step: (high - low) / 1000,
        oninput: () => this.move(axis, Number(input.value)),
      });
      input.value = this.point[axis];
      const play = element(
        "button",
        { type: "button", "aria-label": `play ${name}`, onclick: () => this.play(axis) },
        "▶"
      );
      this.moving.set(axis, { input, shown, play });
      return element(
        "div", { class: "slider" }, play, element("label", { for: id }, name), input, shown
      );
    }));
    this.sliders.hidden = this.hidden.length === 0;
  }

  // Where the iso-surface lies: from the field's lowest to its highest value; of a field with a
  // sign, both at a value and at minus it.
  buildLevel() {
    const shown = element("output", { for: "slider-level" });
    const input = element(
      "input",
      { type: "range", id: "slider-level", oninput: () => this.set({ level: Number(input.value) }) }
    );
    const row = element("div", { class: "slider level", hidden: true },
      element("span"), element("label", { for: "slider-level" }, "level"), input, shown);
    this.level = { row, input, shown };
  }

  get signed() {
    const [low, high] = this.output.range;
    // a trace below zero is no other sign
    return low < 0 && high > 0 && Math.min(-low, high) > 0.05 * Math.max(-low, high);
  }

  get solidLevels() {
    return this.signed ? [this.state.level, -this.state.level] : [this.state.level];
  }

  // Half way to what is seen now: half of the whole solution's range may be nowhere at this
  // instant.
  resetLevel() {
    const [low, high] = this.output.range;
    const [least, most] = this.signed ? [0, Math.max(-low, high)] : [low, high];
    let [from, to] = [Infinity, -Infinity];
    for (const value of this.volume.values) {
      const seen = this.signed ? Math.abs(value) : value;
      if (seen < from) from = seen;
      if (seen > to) to = seen;
    }
    Object.assign(this.level.input, { min: least, max: most, step: (most - least) / 1000 });
    this.state.level = from <= to ? (from + to) / 2 : (least + most) / 2;
    this.level.input.value = this.state.level;
  }

  listen() {
    const pointed = (event) => {
      if (this.state.look !== "picture") {
        if (event.buttons) {
          this.rotate(-event.movementX * 0.01, event.movementY * 0.01);
          event.preventDefault();
        }
        return;
      }
      const { left, top } = this.main.getBoundingClientRect();
      this.cross(event.clientX - left, event.clientY - top);
    };
    this.main.addEventListener("pointermove", pointed);
    this.main.addEventListener("pointerdown", (event) => {
      if (this.state.look !== "picture") this.main.setPointerCapture(event.pointerId);
      pointed(event);
    });
    this.main.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.refresh(false)).observe(this.main);
    matchMedia("(prefers-color-scheme: dark)").addEventListener(
      "change", () => this.refresh(false)
    );
  }

  key(event) {
    const [x, y] = {
      ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]
    }[event.key] ?? [0, 0];
    if (!x && !y) return;
    event.preventDefault();
    if (this.state.look !== "picture") this.rotate(0.08 * x, 0.06 * y);
    else {
      const far = event.shiftKey ? 0.1 : 0.01;
      for (const [axis, by] of [[this.state.across, x], [this.state.up, y]]) {
        const { low, high } = this.axes[axis];
        this.point[axis] = Math.max(
          low, Math.min(high, this.point[axis] + by * far * (high - low))
        );
      }
      this.refresh(false);
    }
  }

  rotate(turn, tilt) {
    const most = Math.PI / 2 - 0.05;
    this.state.turn += turn;
    this.state.tilt = Math.max(0.05, Math.min(most, this.state.tilt + tilt));
    this.refresh(false);
  }

  cross(x, y) {
    if (!this.box) return;
    const part = [(x - this.box.left) / this.box.width, 1 - (y - this.box.top) / this.box.height];
    if (part.some((p) => p < 0 || p > 1)) return;
    [this.state.across, this.state.up].forEach((axis, i) => {
      const { low, high } = this.axes[axis];
      this.point[axis] = low + part[i] * (high - low);
    });
    this.refresh(false);
  }

  // --- what changes ------------------------------------------------------------------------------

  set(change) {
    Object.assign(this.state, change);
    this.refresh();
  }

  move(axis, coordinate) {
    this.point[axis] = coordinate;
    const { input } = this.moving.get(axis) ?? {};
    if (input) input.value = coordinate;
    this.refresh();
  }

  stop() {
    if (this.state.playing !== null) this.play(this.state.playing);
  }

  // Runs through an axis, again and again; a second call stops it.
  play(axis) {
    const starts = this.state.playing !== axis;
    const { low, high } = this.axes[axis];
    this.state.playing = starts ? axis : null;
    this.moving.forEach(({ play }, i) => {
      const on = i === this.state.playing;
      play.textContent = on ? "❚❚" : "▶";
      play.setAttribute("aria-label", `${on ? "pause" : "play"} ${this.axes[i].name}`);
    });
    if (!starts) return;
    let before = performance.now();
    const step = (now) => {
      if (this.state.playing !== axis) return;
      const next = this.point[axis] + ((now - before) / ROUND) * (high - low);
      before = now;
      this.move(axis, next > high ? low : next);
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  // Draws with the next frame, however many changes come before it.
  refresh(values = true) {
    this.stale = this.stale || values;
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = null;
      this.draw();
    });
  }

  // --- pictures ----------------------------------------------------------------------------------

  range() {
    const { scale, low, high, colours } = this.state;
    let [least, most] = this.output.range;
    if (scale === "hand") [least, most] = [Math.min(low, high), Math.max(low, high)];
    if (scale === "slice") {
      [least, most] = [Infinity, -Infinity];
      for (const value of this.values) {
        if (value < least) least = value;
        if (value > most) most = value;
      }
    }
    if (!(least <= most)) [least, most] = this.output.range;
    if (colours === this.diverging && scale !== "hand") [least, most] = [
      -Math.max(-least, most), Math.max(-least, most)
    ];
    return most > least ? { low: least, high: most } : { low: least - 0.5, high: least + 0.5 };
  }

  draw() {
    const started = performance.now();
    const { across, up, look, colours } = this.state;
    const { output, factors, point } = this;
    if (this.stale) factors.slice(output, across, up, point, this.values);
    const range = this.range();
    const shades = this.palettes[colours];
    const [horizontal, vertical] = [this.axes[across], this.axes[up]];
    if (look === "picture") {
      if (this.stale) paint(this.image, this.values, shades, range.low, range.high);
      this.box = drawPicture(
        this.main, this.image, horizontal, vertical, { x: point[across], y: point[up] }
      );
    } else if (look === "surface" || this.third === undefined) {
      drawSurface(this.main, this.values, shades, range, horizontal, vertical, this.state);
    } else if (look === "solid") {
      if (this.stale) this.resolid();
      const colours = this.solidLevels.map((level) => shades[shade(level, range.low, range.high)]);
      drawSolids(
        this.main, this.solids, colours, this.solidAxes.map((axis) => this.axes[axis]), this.state
      );
    } else {
      if (this.stale) this.restack(range, shades);
      drawStack(
        this.main, this.stack, this.levels, horizontal, vertical, this.axes[this.third], this.state
      );
    }
    drawScale(this.bar, shades, range.low, range.high);
    this.main.classList.toggle("turns", look !== "picture");
    [[across, horizontal], [up, vertical]].forEach(([axis, named], i) => {
      drawLine(
        this.lines[i],
        factors.coordinates(axis),
        factors.line(output, axis, point),
        named,
        range,
        output.name,
        point[axis]
      );
      this.lines[i].setAttribute("aria-label", `${output.name} along ${named.name}`);
    });
    this.say(horizontal, vertical);
    this.stale = false;
    this.spent = performance.now() - started;
  }

  resolid() {
    this.solidAxes = [this.state.across, this.state.up, this.third];
    const moved = this.point.filter((_, axis) => !this.solidAxes.includes(axis));
    // the level moves more often than these
    const key = JSON.stringify([this.state.output, this.solidAxes, moved]);
    if (this.volume?.key !== key) this.volume = {
      key, values: this.factors.volume(this.output, this.solidAxes, this.point, SOLID)
    };
    if (this.state.level === null) this.resetLevel();
    this.solids = this.solidLevels.map((level) => surfaceOf(this.volume.values, SOLID, level));
  }

  restack(range, shades) {
    const { across, up } = this.state;
    const axis = this.third;
    const { low, high } = this.axes[axis];
    this.levels = this.stack.map((_, i) => low + ((high - low) * (i + 0.5)) / LEVELS);
    const moved = [...this.point];
    const values = new Float32Array(GRID * GRID);
    this.stack.forEach((canvas, i) => {
      moved[axis] = this.levels[i];
      paint(
        canvas,
        this.factors.slice(this.output, across, up, moved, values),
        shades,
        range.low,
        range.high
      );
    });
  }

  say(horizontal, vertical) {
    const value = this.factors.value(this.output, this.point);
    const where = this.axes.map(({ name }, i) => `${name} = ${written(this.point[i])}`).join(", ");
    const found = Number.isNaN(value)
      ? "is outside the domain"
      : `= ${value.toPrecision(7).replace("-", "−")}`;
    this.readout.textContent = `${this.output.name} ${found} at ${where}`;
    this.moving.forEach(({ shown }, axis) => (shown.textContent = written(this.point[axis])));
    this.level.row.hidden = this.state.look !== "solid";
    let over = `over ${horizontal.name} and ${vertical.name}`;
    if (this.state.look === "solid") {
      this.level.shown.textContent = (this.signed ? "± " : "") + written(
        Number(this.state.level.toPrecision(3))
      );
      const names = this.solidAxes.map((axis) => this.axes[axis].name).join(", ");
      over = `where it is ${this.level.shown.textContent}, in ${names}`;
    }
    const help = this.state.look === "picture" ? "arrow keys move the cross" : "arrow keys turn it";
    this.main.setAttribute("aria-label", `${this.output.name} ${over}; ${help}`);
  }
}

const place = document.getElementById("viewer");
if (place) window.separaxViewer = new Viewer(
  place, JSON.parse(document.getElementById("viewer-data").textContent)
);
