'use strict';
// The map of bytes: boxes as large as what they stand for, one directory at a time. A click goes into a directory, the
// way above leads back. With "leave out", a click puts what it hits into a list of --exclude options. All texts are set
// as texts.
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId('data').textContent);
  const map = byId('map'), way = byId('way'), told = byId('told'), excludes = byId('excludes');
  const HEAD = 36, SMALL = 3;
  // The pattern of each box that is left out, and its bytes.
  const out = new Map();
  let path = [data.dirs], types = false, choosing = false;

  const size = (bytes) => {
    const units = ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB'];
    let unit = 0;
    while (bytes >= 999.5 && unit + 1 < units.length) { bytes /= 1000; unit += 1; }
    return (unit === 0 ? bytes : bytes.toFixed(bytes < 9.995 ? 2 : 1)) + ' ' + units[unit];
  };
  const files = (count) => count.toLocaleString('en') + (count === 1 ? ' file' : ' files');
  const share = (bytes, all) => (all > 0 ? (100 * bytes / all).toFixed(1) : '0') + ' %';

  // What is in a directory: { name, bytes, files, node } each, the largest first. `node` is where a click leads.
  const parts = (node) => {
    const [, , , ownBytes, ownFiles, restBytes, restFiles, below] = node;
    const all = below.map((child) => ({ name: child[0], bytes: child[1], files: child[2], node: child }));
    if (ownBytes > 0) all.push({ name: 'files in it', bytes: ownBytes, files: ownFiles });
    if (restBytes > 0) all.push({ name: 'smaller directories', bytes: restBytes, files: restFiles });
    return all.sort((a, b) => b.bytes - a.bytes);
  };
  const kinds = () => data.types.map(([name, bytes, count]) => ({ name, bytes, files: count }))
    .filter((kind) => kind.bytes > 0).sort((a, b) => b.bytes - a.bytes);

  // The pattern of .gitignore's kind that leaves a box out, from the root of the copy. A name that is shown with escapes
  // has none.
  const pattern = (item) => {
    const names = types ? [item.name] : [...path.slice(data.depth).map((step) => step[0]), item.name];
    const isNamed = types ? item.name.startsWith('.') : item.node && path.length >= data.depth;
    if (!isNamed || names.some((name) => name.includes('\\'))) return null;
    const quoted = names.map((name) => name.replace(/[*?\[\]!# ]/g, '\\$&'));
    return types ? '*' + quoted[0] : '/' + quoted.join('/') + '/';
  };
  const option = (text) => "--exclude '" + text.replaceAll("'", "'\\''") + "'";

  // Squarified treemap: rows along the shorter side, each as long as its boxes come nearer to squares.
  const layout = (items, x, y, width, height) => {
    const total = items.reduce((sum, item) => sum + item.bytes, 0);
    const boxes = [];
    if (total <= 0 || width <= 0 || height <= 0) return boxes;
    const scale = width * height / total;
    const worst = (row, sum, side) => row.reduce((most, item) => {
      const area = item.bytes * scale, thick = sum * scale / side, long = area / thick;
      return Math.max(most, long / thick, thick / long);
    }, 0);
    let at = 0;
    while (at < items.length) {
      const side = Math.min(width, height);
      let row = [items[at]], sum = items[at].bytes, bad = worst(row, sum, side);
      for (at += 1; at < items.length; at += 1) {
        const next = [...row, items[at]], more = sum + items[at].bytes, then = worst(next, more, side);
        if (then > bad) break;
        row = next; sum = more; bad = then;
      }
      const thick = sum * scale / side;
      let along = 0;
      for (const item of row) {
        const long = item.bytes * scale / thick;
        boxes.push(width >= height
          ? { item, x, y: y + along, width: thick, height: long }
          : { item, x: x + along, y, width: long, height: thick });
        along += long;
      }
      if (width >= height) { x += thick; width -= thick; } else { y += thick; height -= thick; }
    }
    return boxes;
  };

  const place = (element, box) => {
    element.style.left = box.x + 'px';
    element.style.top = box.y + 'px';
    element.style.width = box.width + 'px';
    element.style.height = box.height + 'px';
  };
  const line = (parent, text, kind) => {
    const span = document.createElement('span');
    span.textContent = text;
    if (kind) span.className = kind;
    parent.append(span);
  };

  // The directories in a directory, drawn faintly, with their names where there is room.
  const inside = (parent, box) => {
    const { width, height } = box;
    if (!box.item.node || width < 50 || height < HEAD + 24) return;
    for (const inner of layout(parts(box.item.node), 4, HEAD, width - 10, height - HEAD - 6)) {
      if (inner.width < SMALL || inner.height < SMALL) continue;
      const element = document.createElement('div');
      element.className = 'inner plain';
      place(element, inner);
      if (inner.width > 60 && inner.height > 20) line(element, inner.item.name);
      parent.append(element);
    }
  };

  const draw = () => {
    const node = path[path.length - 1];
    const items = types ? kinds() : parts(node);
    const all = types ? items.reduce((sum, item) => sum + item.bytes, 0) : node[1];
    map.replaceChildren();
    layout(items, 0, 0, map.clientWidth, map.clientHeight).forEach((box, number) => {
      if (box.width < SMALL || box.height < SMALL) return;
      const { name, bytes, files: count, node: below } = box.item;
      const text = pattern(box.item);
      const leads = choosing ? text !== null : below && (below[7].length > 0 || below[5] > 0);
      const element = document.createElement(leads ? 'button' : 'div');
      element.className = 'box m' + (number % 8) + (out.has(text) ? ' out' : '');
      element.title = name + '\n' + size(bytes) + ', ' + share(bytes, all) + ', ' + files(count);
      place(element, box);
      if (box.width > 34 && box.height > 20) line(element, name);
      if (box.width > 50 && box.height > HEAD) line(element, size(bytes) + ', ' + share(bytes, all), 'amount');
      inside(element, box);
      if (leads) {
        element.type = 'button';
        element.addEventListener('click', () => {
          if (!choosing) path.push(below);
          else if (!out.delete(text)) out.set(text, box.item.bytes);
          draw();
        });
      }
      map.append(element);
    });
    head(node, items, all);
  };

  const head = (node, items, all) => {
    way.replaceChildren();
    path.forEach((step, number) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = step[0] + (number + 1 < path.length ? ' /' : '');
      button.disabled = types || number + 1 === path.length;
      button.addEventListener('click', () => { path = path.slice(0, number + 1); draw(); });
      way.append(button);
    });
    byId('by-dir').disabled = !types;
    byId('by-type').disabled = types;
    const count = types ? items.reduce((sum, item) => sum + item.files, 0) : node[2];
    told.textContent = size(all) + ' in ' + files(count)
      + (types ? ', by the ends of their names' : '; a click goes into a directory, the way above leads back');
    byId('choose').setAttribute('aria-pressed', String(choosing));
    excludes.hidden = !choosing && out.size === 0;
    excludes.textContent = out.size === 0 ? 'click on what a copy leaves out'
      : [...out.keys()].map(option).join(' \\\n');
  };

  byId('by-dir').addEventListener('click', () => { types = false; draw(); });
  byId('by-type').addEventListener('click', () => { types = true; draw(); });
  byId('choose').addEventListener('click', () => { choosing = !choosing; draw(); });
  window.addEventListener('resize', draw);
  byId('map-head').hidden = false;
  map.hidden = false;
  draw();
})();
