"use strict";
// Drawing on canvases: colours, pictures in frames, lines, surfaces and stacks. Nothing here knows
// where values come from.

const SHADES = 512;
const CELLS = 64; // of a surface along each axis

// A table of colours as 32-bit pixels, from a few hexadecimal ones.
function palette(stops) {
  const channels = stops.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  return Uint32Array.from({ length: SHADES }, (_, i) => {
    const place = (i / (SHADES - 1)) * (stops.length - 1);
    const at = Math.min(Math.floor(place), stops.length - 2);
    const [r, g, b] = [0, 1, 2].map(
      (c) => Math.round(channels[at][c] + (place - at) * (channels[at + 1][c] - channels[at][c]))
    );
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
}

function css(pixel, light = 1) {
  const [r, g, b] = [0, 8, 16].map(
    (shift) => Math.round(Math.min(255, ((pixel >> shift) & 255) * light))
  );
  return `rgb(${r},${g},${b})`;
}

function shade(value, low, high) {
  return Math.max(
    0, Math.min(SHADES - 1, Math.round(((value - low) / (high - low)) * (SHADES - 1)))
  );
}

// Values GRID × GRID as an image on a small canvas, the first axis to the right, the second
// upwards.
function paint(canvas, values, colours, low, high) {
  const context = canvas.getContext("2d", { willReadFrequently: true });
  canvas.image ??= context.createImageData(GRID, GRID);
  const pixels = new Uint32Array(canvas.image.data.buffer);
  const scale = (SHADES - 1) / (high - low);
  for (let j = 0; j < GRID; j += 1) {
    const row = (GRID - 1 - j) * GRID;
    for (let i = 0; i < GRID; i += 1) {
      const value = values[i * GRID + j];
      const at = (value - low) * scale + 0.5;
      pixels[row + i] = Number.isNaN(value)
        ? 0
        : colours[at < 0 ? 0 : at >= SHADES ? SHADES - 1 : at | 0];
    }
  }
  context.putImageData(canvas.image, 0, 0);
}

function small() {
  const canvas = document.createElement("canvas");
  canvas.width = GRID;
  canvas.height = GRID;
  return canvas;
}

// A canvas ready to be drawn on in CSS pixels, sharp on any screen, in the page's colours.
function cleared(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(name).trim();
  context.font = "12px system-ui, sans-serif";
  return {
    context,
    width,
    height,
    ink: colour("--ink"),
    faint: colour("--faint"),
    line: colour("--line"),
    mark: colour("--s0")
  };
}

// Round numbers between two.
function roundNumbers(low, high, most) {
  const raw = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => (high - low) / s <= most + 1e-9);
  const out = [];
  for (
    let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i += 1
  ) out.push(i * step);
  return out;
}

function written(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e-3 && size < 1e5
    ? String(Number(value.toPrecision(4)))
    : value.toExponential(1).replace("e+", "e");
  return text.replace(/^-/, "−");
}

// The frame of a plot with its ticks and names. `to` maps coordinates to the canvas.
function frame({ context, ink, faint, line }, box, across, up, grid) {
  const to = {
    x: (x) => box.left + ((x - across.low) / (across.high - across.low)) * box.width,
    y: (y) => box.top + (1 - (y - up.low) / (up.high - up.low)) * box.height,
  };
  context.lineWidth = 1;
  context.fillStyle = faint;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const y of roundNumbers(up.low, up.high, Math.max(2, Math.floor(box.height / 45)))) {
    context.strokeStyle = grid ? line : faint;
    stroke(
      context,
      grid ? box.left : box.left - 4,
      to.y(y),
      grid ? box.left + box.width : box.left,
      to.y(y)
    );
    context.fillText(written(y), box.left - 7, to.y(y));
  }
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const x of roundNumbers(across.low, across.high, Math.max(2, Math.floor(box.width / 70)))) {
    context.strokeStyle = grid ? line : faint;
    stroke(
      context,
      to.x(x),
      grid ? box.top : box.top + box.height,
      to.x(x),
      box.top + box.height + (grid ? 0 : 4)
    );
    context.fillText(written(x), to.x(x), box.top + box.height + 6);
  }
  context.strokeStyle = faint;
  context.strokeRect(box.left, box.top, box.width, box.height);
  context.fillStyle = ink;
  context.fillText(across.name, box.left + box.width / 2, box.top + box.height + 21);
  context.save();
  context.translate(10, box.top + box.height / 2);
  context.rotate(-Math.PI / 2);
  context.textBaseline = "middle";
  context.fillText(up.name, 0, 0);
  context.restore();
  return to;
}

function stroke(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

// The picture in its frame, with a cross where the pointer is; returns where the picture lies.
function drawPicture(canvas, image, across, up, cross) {
  const paper = cleared(canvas);
  const box = { left: 56, top: 8, width: paper.width - 64, height: paper.height - 50 };
  paper.context.imageSmoothingEnabled = true;
  paper.context.drawImage(image, box.left, box.top, box.width, box.height);
  const to = frame(paper, box, across, up, false);
  const { context } = paper;
  for (const [colour, width] of [["rgba(0,0,0,.75)", 3], ["#fff", 1]]) { // seen on every colour
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash([6, 4]);
    stroke(context, to.x(cross.x), box.top, to.x(cross.x), box.top + box.height);
    stroke(context, box.left, to.y(cross.y), box.left + box.width, to.y(cross.y));
    context.setLineDash([]);
  }
  return box;
}

// Values along one axis, with a mark at the pointer.
function drawLine(canvas, coordinates, values, across, range, name, cross) {
  const paper = cleared(canvas);
  const box = { left: 64, top: 8, width: paper.width - 74, height: paper.height - 50 };
  let { low, high } = range;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const spare = 0.04 * (high - low);
  const to = frame(paper, box, across, { name, low: low - spare, high: high + spare }, true);
  const { context } = paper;
  context.strokeStyle = paper.faint;
  context.setLineDash([4, 4]);
  stroke(context, to.x(cross), box.top, to.x(cross), box.top + box.height);
  context.setLineDash([]);
  context.strokeStyle = paper.mark;
  context.lineWidth = 1.8;
  context.beginPath();
  let down = false;
  values.forEach((value, i) => {
    if (Number.isNaN(value)) down = false;
    else {
      context[down ? "lineTo" : "moveTo"](to.x(coordinates[i]), to.y(value));
      down = true;
    }
  });
  context.stroke();
}

// --- three dimensions: parallel projection, far things first -------------------------------------

function projection(paper, turn, tilt, part = 0.34) {
  const size = part * Math.min(paper.width, paper.height);
  const [ct, st, ce, se] = [Math.cos(turn), Math.sin(turn), Math.cos(tilt), Math.sin(tilt)];
  return (x, y, z) => [
    paper.width / 2 + size * (x * ct - y * st),
    paper.height / 2 - size * (z * ce + (x * st + y * ct) * se),
  ];
}

function polygon(context, points) {
  context.beginPath();
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.closePath();
}

// Names and ends of the two flat axes, along the edges that are nearest.
function labels(paper, to, across, up, z, turn) {
  const { context } = paper;
  const [y, x] = [Math.cos(turn) > 0 ? -1.18 : 1.18, Math.sin(turn) > 0 ? -1.18 : 1.18];
  context.fillStyle = paper.ink;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const [axis, near, far] of [[across, [-1, y], [1, y]], [up, [x, -1], [x, 1]]]) {
    context.fillStyle = paper.faint;
    context.fillText(written(axis.low), ...to(...near, z));
    context.fillText(written(axis.high), ...to(...far, z));
    context.fillStyle = paper.ink;
    context.fillText(axis.name, ...to((near[0] + far[0]) / 2, (near[1] + far[1]) / 2, z));
  }
}

function drawSurface(canvas, values, colours, range, across, up, view) {
  const paper = cleared(canvas);
  const { context } = paper;
  const to = projection(paper, view.turn, view.tilt);
  const height = (value) => 1.2 * (
    (Math.max(range.low, Math.min(range.high, value)) - range.low) / (range.high - range.low)
  ) - 0.6;
  context.strokeStyle = paper.line;
  context.lineWidth = 1;
  polygon(context, [to(-1, -1, -0.6), to(1, -1, -0.6), to(1, 1, -0.6), to(-1, 1, -0.6)]);
  context.stroke();
  labels(paper, to, across, up, -0.6, view.turn);
  const at = (i) => Math.round((i / CELLS) * (GRID - 1));
  const place = (i) => (2 * at(i)) / (GRID - 1) - 1;
  const corners = new Array((CELLS + 1) ** 2);
  const heights = new Float64Array((CELLS + 1) ** 2);
  for (let i = 0; i <= CELLS; i += 1) {
    for (let j = 0; j <= CELLS; j += 1) {
      const n = i * (CELLS + 1) + j;
      heights[n] = values[at(i) * GRID + at(j)];
      corners[n] = to(place(i), place(j), height(heights[n]));
    }
  }
  // the far end first
  const order = (along) => Array.from({ length: CELLS }, (_, i) => (along > 0 ? CELLS - 1 - i : i));
  for (const i of order(Math.sin(view.turn))) {
    for (const j of order(Math.cos(view.turn))) {
      const n = [
        [i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]
      ].map(([a, b]) => a * (CELLS + 1) + b);
      const mean = (heights[n[0]] + heights[n[1]] + heights[n[2]] + heights[n[3]]) / 4;
      if (Number.isNaN(mean)) continue;
      const slope = (height(heights[n[0]]) - height(heights[n[2]])) * CELLS * 0.12;
      const light = 0.92 + 0.18 * Math.max(-1, Math.min(1, slope));
      const fill = css(colours[shade(mean, range.low, range.high)], light);
      context.fillStyle = fill;
      context.strokeStyle = fill; // closes the seams between neighbours
      context.lineWidth = 0.7;
      polygon(context, n.map((k) => corners[k]));
      context.fill();
      context.stroke();
    }
  }
}

// Slices of a third axis above each other. A parallel projection of a flat picture is an affine
// map, which canvases have.
function drawStack(canvas, images, levels, across, up, third, view) {
  const paper = cleared(canvas);
  const { context } = paper;
  const ratio = window.devicePixelRatio || 1;
  // smaller: it is taller than it is wide, and has words beside it
  const to = projection(paper, view.turn, view.tilt, 0.27);
  const order = images.map((_, i) => i);
  if (view.tilt < 0) order.reverse();
  labels(paper, to, across, up, -1, view.turn);
  for (const i of order) {
    const z = images.length > 1 ? (2 * i) / (images.length - 1) - 1 : 0;
    const [corner, right, down] = [to(-1, 1, z), to(1, 1, z), to(-1, -1, z)];
    context.save();
    context.globalAlpha = 0.88;
    context.setTransform(
      (ratio * (right[0] - corner[0])) / GRID, (ratio * (right[1] - corner[1])) / GRID,
      (ratio * (down[0] - corner[0])) / GRID, (ratio * (down[1] - corner[1])) / GRID,
      ratio * corner[0], ratio * corner[1],
    );
    context.drawImage(images[i], 0, 0);
    context.restore();
    context.strokeStyle = paper.faint;
    context.lineWidth = 1;
    polygon(context, [corner, right, to(1, -1, z), down]);
    context.stroke();
    context.fillStyle = paper.ink;
    context.textAlign = "left";
    context.textBaseline = "middle";
    const edge = [
      to(1, -1, z), to(1, 1, z), to(-1, 1, z), to(-1, -1, z)
    ].reduce((a, b) => (b[0] > a[0] ? b : a));
    context.fillText(
      `${third.name} = ${written(Number(levels[i].toPrecision(3)))}`, edge[0] + 6, edge[1]
    );
  }
}

function drawScale(canvas, colours, low, high) {
  const paper = cleared(canvas);
  const { context, width } = paper;
  const stops = context.createLinearGradient(56, 0, width - 8, 0);
  for (let i = 0; i <= 32; i += 1) stops.addColorStop(
    i / 32, css(colours[Math.round((i / 32) * (SHADES - 1))])
  );
  context.fillStyle = stops;
  context.fillRect(56, 2, width - 64, 12);
  context.strokeStyle = paper.faint;
  context.strokeRect(56, 2, width - 64, 12);
  context.fillStyle = paper.faint;
  context.textBaseline = "top";
  context.textAlign = "center";
  const x = (value) => 56 + ((value - low) / (high - low)) * (width - 64);
  for (const value of roundNumbers(low, high, Math.max(2, Math.floor(width / 90)))) {
    stroke(context, x(value), 14, x(value), 18);
    context.fillText(written(value), Math.min(x(value), width - 18), 20);
  }
}
