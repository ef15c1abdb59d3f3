"use strict";
// Where a field takes a value: the surface through a volume of samples, and its picture. Nothing
// here knows where samples come from.

const SOLID = 48; // samples along each axis
// of a cell, by its corners
const TETRAHEDRA = [
  [0, 1, 3, 7], [0, 1, 5, 7], [0, 2, 3, 7], [0, 2, 6, 7], [0, 4, 5, 7], [0, 4, 6, 7]
];
const SHARPEST = 1000; // pixels across, whatever the screen has

// The surface of a level through n × n × n values, by marching tetrahedra: triangles as places in
// the unit cube, nine numbers
// each, and the field's slopes there, which are normal to the surface. Cells that reach out of the
// domain (NaN) have none.
function surfaceOf(values, n, level) {
  const places = [];
  const slopes = [];
  const offsets = Array.from(
    { length: 8 }, (_, c) => (c >> 2) * n * n + ((c >> 1) & 1) * n + (c & 1)
  );
  const slope = (at, along, where) => {
    const before = where > 0 ? values[at - along] : values[at];
    const after = where < n - 1 ? values[at + along] : values[at];
    const found = (after - before) / (where > 0 && where < n - 1 ? 2 : 1);
    return Number.isNaN(found) ? 0 : found;
  };
  const vertex = (p, q) => {
    const part = (level - values[p]) / (values[q] - values[p]);
    for (let along = n * n; along >= 1; along /= n) {
      const wp = Math.floor(p / along) % n;
      const wq = Math.floor(q / along) % n;
      places.push((wp + part * (wq - wp)) / (n - 1));
      slopes.push(slope(p, along, wp) * (1 - part) + slope(q, along, wq) * part);
    }
  };
  for (let i = 0; i < n - 1; i += 1) {
    for (let j = 0; j < n - 1; j += 1) {
      for (let k = 0; k < n - 1; k += 1) {
        const corner = (i * n + j) * n + k;
        let above = 0;
        let known = true;
        for (const offset of offsets) {
          const value = values[corner + offset];
          if (value > level) above += 1;
          else if (Number.isNaN(value)) known = false;
        }
        if (!known || above === 0 || above === 8) continue;
        for (const tetrahedron of TETRAHEDRA) {
          const high = [];
          const low = [];
          for (const c of tetrahedron) (
            values[corner + offsets[c]] > level ? high : low
          ).push(corner + offsets[c]);
          if (high.length === 2) {
            const ring = [
              [high[0], low[0]], [high[0], low[1]], [high[1], low[1]], [high[1], low[0]]
            ];
            for (const at of [0, 1, 2, 0, 2, 3]) vertex(...ring[at]);
          } else if (high.length === 1 || low.length === 1) {
            const [[alone], rest] = high.length === 1 ? [high, low] : [low, high];
            for (const other of rest) vertex(alone, other);
          }
        }
      }
    }
  }
  return { level, places: Float32Array.from(places), slopes: Float32Array.from(slopes) };
}

// Surfaces in their box, each in a colour of its own, lit from above on the left, the nearest in
// front.
function drawSolids(canvas, solids, colours, axes, view) {
  const paper = cleared(canvas);
  const { context } = paper;
  const part = 0.27; // as of a stack: it is taller than it is wide, and has words beside it
  const to = projection(paper, view.turn, view.tilt, part);
  const corners = Array.from(
    { length: 8 }, (_, c) => [c & 4 ? 1 : -1, c & 2 ? 1 : -1, c & 1 ? 1 : -1]
  );
  const nearest = (
    Math.sin(view.turn) < 0 ? 4 : 0
  ) + (Math.cos(view.turn) < 0 ? 2 : 0) + (view.tilt > 0 ? 1 : 0);
  const edges = (front) => {
    context.strokeStyle = paper.faint;
    context.lineWidth = 1;
    corners.forEach((from, c) => {
      for (const bit of [1, 2, 4]) { // corners differ in one coordinate at the ends of an edge
        const d = c | bit;
        if (
          d !== c && (c === nearest || d === nearest) === front
        ) stroke(context, ...to(...from), ...to(...corners[d]));
      }
    });
  };
  edges(false);
  const image = rasterised(paper, solids, colours, view, part);
  if (image) context.drawImage(image, 0, 0, paper.width, paper.height);
  edges(true);
  labels(paper, to, axes[0], axes[1], -1, view.turn);
  upright(paper, to, axes[2], corners);
  if (!image) {
    context.fillStyle = paper.ink;
    context.textAlign = "center";
    context.fillText("nothing here has this value", paper.width / 2, paper.height / 2);
  }
}

// The name and the ends of the third axis, beside the upright edge that is furthest left.
function upright(paper, to, axis, corners) {
  const { context } = paper;
  const [x, y] = corners.reduce((a, b) => (to(...b)[0] < to(...a)[0] ? b : a));
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const [text, z] of [[written(axis.low), -0.9], [axis.name, 0], [written(axis.high), 0.95]]) {
    const [left, top] = to(x, y, z);
    context.fillStyle = z === 0 ? paper.ink : paper.faint;
    context.fillText(text, left - 7, top);
  }
}

// The surfaces on a canvas of their own, pixel by pixel with the depth of each; null if there are
// none.
function rasterised(paper, solids, colours, view, part) {
  if (!solids.some(({ places }) => places.length)) return null;
  // more than the screen has: smooth edges
  const sharp = Math.min(Math.max(1.5, window.devicePixelRatio || 1), SHARPEST / paper.width);
  const [width, height] = [Math.round(paper.width * sharp), Math.round(paper.height * sharp)];
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  const picture = context.createImageData(width, height);
  const pixels = new Uint32Array(picture.data.buffer);
  const depths = new Float32Array(width * height).fill(Infinity);
  solids.forEach(
    (solid, i) => raster(solid, lights(colours[i]), view, part, { pixels, depths, width, height })
  );
  context.putImageData(picture, 0, 0);
  return canvas;
}

// A colour from dark to lit, as pixels; the brightest are a reflection.
function lights(pixel) {
  // the darkest colour still shows its form
  const channels = [0, 8, 16].map((shift) => 24 + 0.9 * ((pixel >> shift) & 255));
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const light = 0.22 + 0.86 * (i / 255) ** 1.5;
    const gleam = 90 * (i / 255) ** 24;
    const [r, g, b] = channels.map((c) => Math.round(Math.min(255, c * light + gleam)));
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
}

function raster(
  { places, slopes }, table, { turn, tilt }, part, { pixels, depths, width, height }
) {
  const [ct, st, ce, se] = [Math.cos(turn), Math.sin(turn), Math.cos(tilt), Math.sin(tilt)];
  // the projection of viewer_draw.js, and the depth beside it
  const size = part * Math.min(width, height);
  const corner = [0, 1, 2].map(() => ({ x: 0, y: 0, far: 0, light: 0 }));
  for (let at = 0; at < places.length; at += 9) {
    for (let i = 0; i < 3; i += 1) {
      const p = at + 3 * i;
      const x = 2 * places[p] - 1, y = 2 * places[p + 1] - 1, z = 2 * places[p + 2] - 1;
      const back = x * st + y * ct;
      const to = corner[i];
      to.x = width / 2 + size * (x * ct - y * st);
      to.y = height / 2 - size * (z * ce + back * se);
      to.far = back * ce - z * se;
      const a = slopes[p], b = slopes[p + 1], c = slopes[p + 2];
      const right =
        a * ct - b * st, up =
          c * ce + (a * st + b * ct) * se, near = c * se - (a * st + b * ct) * ce;
      const lit = (
        Math.sign(near) * (0.55 * up - 0.42 * right) + 0.72 * Math.abs(near)
      ) / (Math.sqrt(a * a + b * b + c * c) || 1);
      // on the side one sees; what is turned away still shows its form
      to.light = 127.5 * (1 + lit);
    }
    const [a, b, c] = corner;
    const area = (b.x - a.x) * (c.y - a.y) - (c.x - a.x) * (b.y - a.y);
    if (area === 0) continue;
    const left = Math.max(0, Math.ceil(Math.min(a.x, b.x, c.x))), right = Math.min(
      width - 1, Math.floor(Math.max(a.x, b.x, c.x))
    );
    const top = Math.max(0, Math.ceil(Math.min(a.y, b.y, c.y))), bottom = Math.min(
      height - 1, Math.floor(Math.max(a.y, b.y, c.y))
    );
    for (let y = top; y <= bottom; y += 1) {
      for (let x = left; x <= right; x += 1) {
        const v = ((x - a.x) * (c.y - a.y) - (c.x - a.x) * (y - a.y)) / area;
        const w = ((b.x - a.x) * (y - a.y) - (x - a.x) * (b.y - a.y)) / area;
        if (v < 0 || w < 0 || v + w > 1) continue;
        const depth = a.far + v * (b.far - a.far) + w * (c.far - a.far);
        const n = y * width + x;
        if (depth >= depths[n]) continue;
        depths[n] = depth;
        pixels[n] = table[
          Math.min(255, a.light + v * (b.light - a.light) + w * (c.light - a.light)) | 0
        ];
      }
    }
  }
}
